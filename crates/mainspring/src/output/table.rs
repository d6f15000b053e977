//! Columns as wide as what they hold; the last one ends where the line does.

use super::{Output, Paint, clip, plain, width};

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
        let mut widths: Vec<usize> = self.header.iter().map(|name| width(name)).collect();
        for row in &self.rows {
            for (column, (text, _)) in row.iter().enumerate() {
                widths[column] = widths[column].max(width(text));
            }
        }
        let line_width = if out.is_terminal() { super::columns() } else { usize::MAX };
        let header: Vec<_> = self.header.iter().map(|name| ((*name).to_owned(), Some(Paint::Dim))).collect();
        for row in std::iter::once(&header).chain(&self.rows) {
            out.line(self.format(row, &widths, line_width, out));
        }
    }

    fn format(&self, row: &[(String, Option<Paint>)], widths: &[usize], line_width: usize, out: &Output) -> String {
        let mut line = String::new();
        let mut taken = 0;
        for (column, (text, paint)) in row.iter().enumerate() {
            let is_last = column + 1 == row.len();
            let text = if is_last { clip(text, line_width.saturating_sub(taken)) } else { text.clone() };
            let padding = if is_last { 0 } else { widths[column] - width(&text) + 2 };
            taken += width(&text) + padding;
            line.push_str(&paint.map_or_else(|| text.clone(), |paint| out.palette().paint(paint, &text)));
            line.extend(std::iter::repeat_n(' ', padding));
        }
        line.trim_end().to_owned()
    }
}
