//! Live updates: over real sockets, with a real node executing beside them.

mod following;
mod frames;
mod rights;
mod wide;
mod wire;
