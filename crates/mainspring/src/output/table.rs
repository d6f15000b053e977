//! Columns as wide as what they hold. Where a terminal is too narrow for that, the widest texts give way; numbers, times and
//! ids stay whole, and so does what goes through a pipe.

use super::{Output, Paint, clip, plain, width};

/// No text is cut below this to make room for others.
const NARROWEST: usize = 12;
/// Of a whole id.
const ID_LENGTH: usize = 36;
/// Between two columns.
const GAP: usize = 2;

#[derive(Debug)]
pub(crate) struct Table {
    header: &'static [&'static str],
    rows: Vec<Vec<(String, Option<Paint>)>>,
}

impl Table {
    pub(crate) fn new(header: &'static [&'static str]) -> Self {
        Self { header, rows: Vec::new() }
    }

    /// One row, a cell per column; cells may have a colour.
    pub(crate) fn row(&mut self, cells: Vec<(String, Option<Paint>)>) {
        self.rows.push(cells.into_iter().map(|(text, paint)| (plain(&text), paint)).collect());
    }

    pub(crate) fn print(&self, out: &Output) {
        let widths = self.widths(if out.is_terminal() { super::columns() } else { usize::MAX });
        let header: Vec<_> = self.header.iter().map(|name| ((*name).to_owned(), Some(Paint::Dim))).collect();
        for row in std::iter::once(&header).chain(&self.rows) {
            out.line(format(row, &widths, out));
        }
    }

    /// How wide the columns are on lines of that width. What does not fit even so goes on in the next line of the terminal.
    fn widths(&self, line_width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|name| width(name)).collect();
        for row in &self.rows {
            for (column, (text, _)) in row.iter().enumerate() {
                widths[column] = widths[column].max(width(text));
            }
        }
        let gives_way: Vec<usize> = (0..widths.len()).filter(|column| !self.is_exact(*column)).collect();
        while widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1) > line_width {
            // Of several that are as wide, the first: errors and messages stand last.
            let widest = gives_way.iter().rev().copied().max_by_key(|column| widths[*column]);
            match widest.filter(|column| widths[*column] > NARROWEST) {
                Some(column) => widths[column] -= 1,
                None => break,
            }
        }
        widths
    }

    /// Whether a column holds numbers, times or ids, which mean nothing when they are cut; one whole id among names is enough.
    fn is_exact(&self, column: usize) -> bool {
        let is_exact = |text: &str| text.chars().all(|one| one.is_ascii_hexdigit() || "-:./ ".contains(one));
        let texts = || self.rows.iter().filter_map(|row| row.get(column)).map(|(text, _)| text.as_str());
        texts().all(is_exact) || texts().any(|text| text.len() == ID_LENGTH && is_exact(text))
    }
}

fn format(row: &[(String, Option<Paint>)], widths: &[usize], out: &Output) -> String {
    let mut line = String::new();
    for (column, (text, paint)) in row.iter().enumerate() {
        let text = clip(text, widths[column]);
        let padding = if column + 1 == row.len() { 0 } else { widths[column].saturating_sub(width(&text)) + GAP };
        line.push_str(&paint.map_or_else(|| text.clone(), |paint| out.palette().paint(paint, &text)));
        line.extend(std::iter::repeat_n(' ', padding));
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::Table;

    fn table() -> Table {
        let mut table = Table::new(&["RUN", "CREATED", "TRIGGER", "WORKFLOW"]);
        let cells = ["01a1f1ec-605c", "2026-11-19 03:49:22", "event 2026-11-19 03:49:22", "nightly-report"];
        table.row(cells.map(|cell| (cell.to_owned(), None)).into());
        table
    }

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(table().widths(usize::MAX), [13, 19, 25, 14]);
        assert_eq!(table().widths(77), [13, 19, 25, 14]);
    }

    #[test]
    fn the_widest_text_gives_way_and_times_and_ids_stay_whole() {
        assert_eq!(table().widths(70), [13, 19, 18, 14]);
        assert_eq!(table().widths(64), [13, 19, 13, 13]);
        assert_eq!(table().widths(10), [13, 19, 12, 12], "the rest goes on in the next line");
        let mut mixed = Table::new(&["ID", "FOUND IN"]);
        for id in ["hello", "01a1f1ec-5d9b-7276-aa1b-c58ed1329cbd"] {
            mixed.row(vec![(id.to_owned(), None), ("what was found there, with the words around it".to_owned(), None)]);
        }
        assert_eq!(mixed.widths(60), [36, 22]);
    }
}
