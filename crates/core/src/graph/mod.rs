//! Pictures of a workflow: as text, as DOT, as Mermaid and as SVG.
//!
//! Each stage is a picture of its own, because no edge leads from one to another. Nothing here calls a program or
//! reads a terminal: how wide a line may be and whether it may hold box characters are parameters.

mod canvas;
mod dot;
mod labels;
mod layout;
mod listing;
mod mermaid;
mod placed;
mod routes;
mod svg;
mod text;

#[cfg(test)]
mod tests;

pub use canvas::{Ink, Line};
pub use dot::dot;
pub use mermaid::mermaid;
pub use placed::{Placed, PlacedEdge, placed};
pub use svg::svg;
pub use text::{Style, text};
