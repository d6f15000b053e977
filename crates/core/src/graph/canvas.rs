//! A grid of characters, each with what it is for.

/// What a piece of a drawing is, so that the printer may choose a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Plain,
    /// Boxes and edges.
    Frame,
    Name,
    Kind,
    /// What decides whether and how often a task runs.
    Mark,
    Title,
}

/// One line, in pieces of one ink.
pub type Line = Vec<(Ink, String)>;

/// Which of the four neighbours a line character joins.
pub(super) const UP: u8 = 1;
pub(super) const DOWN: u8 = 2;
pub(super) const LEFT: u8 = 4;
pub(super) const RIGHT: u8 = 8;

#[derive(Debug, Clone, Copy)]
enum Cell {
    Empty,
    Text(char, Ink),
    /// The directions that meet here.
    Joint(u8),
    /// Two lines pass each other.
    Crossing,
    Arrow,
}

#[derive(Debug)]
pub(super) struct Canvas {
    rows: Vec<Vec<Cell>>,
    width: usize,
    ascii: bool,
}

impl Canvas {
    pub(super) fn new(width: usize, height: usize, ascii: bool) -> Self {
        Self { rows: vec![vec![Cell::Empty; width]; height], width, ascii }
    }

    fn put(&mut self, row: usize, column: usize, cell: Cell) {
        if row < self.rows.len() && column < self.width {
            self.rows[row][column] = cell;
        }
    }

    pub(super) fn write(&mut self, row: usize, column: usize, text: &str, ink: Ink) {
        for (number, character) in text.chars().enumerate() {
            self.put(row, column + number, Cell::Text(character, ink));
        }
    }

    /// Adds directions to what meets in a cell.
    pub(super) fn join(&mut self, row: usize, column: usize, directions: u8) {
        let cell = match self.rows[row][column] {
            Cell::Joint(others) => Cell::Joint(others | directions),
            _ => Cell::Joint(directions),
        };
        self.put(row, column, cell);
    }

    pub(super) fn cross(&mut self, row: usize, column: usize) {
        self.put(row, column, Cell::Crossing);
    }

    pub(super) fn arrow(&mut self, row: usize, column: usize) {
        self.put(row, column, Cell::Arrow);
    }

    pub(super) fn frame(&mut self, top: usize, left: usize, width: usize, height: usize) {
        let (bottom, right) = (top + height - 1, left + width - 1);
        for column in left + 1..right {
            self.join(top, column, LEFT | RIGHT);
            self.join(bottom, column, LEFT | RIGHT);
        }
        for row in top + 1..bottom {
            self.join(row, left, UP | DOWN);
            self.join(row, right, UP | DOWN);
        }
        self.join(top, left, DOWN | RIGHT);
        self.join(top, right, DOWN | LEFT);
        self.join(bottom, left, UP | RIGHT);
        self.join(bottom, right, UP | LEFT);
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        self.rows.iter().map(|row| self.line(row)).collect()
    }

    fn line(&self, row: &[Cell]) -> Line {
        let used = row.iter().rposition(|cell| !matches!(cell, Cell::Empty)).map_or(0, |last| last + 1);
        let mut line: Line = Vec::new();
        for cell in &row[..used] {
            let (character, ink) = self.character(*cell);
            match line.last_mut() {
                Some((last, text)) if *last == ink => text.push(character),
                _ => line.push((ink, character.into())),
            }
        }
        line
    }

    fn character(&self, cell: Cell) -> (char, Ink) {
        match cell {
            Cell::Empty => (' ', Ink::Plain),
            Cell::Text(character, ink) => (character, ink),
            Cell::Crossing => (if self.ascii { '|' } else { '│' }, Ink::Frame),
            Cell::Arrow => (if self.ascii { 'v' } else { '▼' }, Ink::Frame),
            Cell::Joint(directions) => (joint(directions, self.ascii), Ink::Frame),
        }
    }
}

fn joint(directions: u8, ascii: bool) -> char {
    const BOXES: [char; 16] = [' ', '│', '│', '│', '─', '┘', '┐', '┤', '─', '└', '┌', '├', '─', '┴', '┬', '┼'];
    match (ascii, directions) {
        (false, _) => BOXES[usize::from(directions & 15)],
        (true, 1..=3) => '|',
        (true, 4 | 8 | 12) => '-',
        (true, 0) => ' ',
        (true, _) => '+',
    }
}
