//! Hostile values, end to end through the real program.

fn main() {}
