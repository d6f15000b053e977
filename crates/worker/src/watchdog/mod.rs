//! Sees to it that no process of a task outlives its worker.
//!
//! A worker that is killed, stopped or cut off cannot tidy up after itself, and meanwhile its tasks are executed again
//! elsewhere. So each worker has a helper process: the same binary, started anew, which only reads a pipe and remembers
//! process groups. When the pipe closes, or the worker or the store falls silent for too long, it kills them.
//!
//! | line | meaning |
//! | --- | --- |
//! | `+N MS`, `-N` | process group N begins, has ended; without a beat it may live for MS milliseconds |
//! | `alive MS` | the worker runs; kill everything if it does not say so again within MS milliseconds |
//! | `beat` | the store renewed the lease |
//! | `directory PATH` | to be removed at the end |
//! | `engine PATH` | the program that removes containers |
//! | `container ID NAME` | the group runs this container, which is removed with it |
//!
//! At the end it also looks for processes that the worker had no time to announce. Not covered: processes that left
//! their group (`setsid`).

mod containers;
mod guard;
mod helper;
mod strays;

pub(crate) use guard::Guard;
pub use helper::{main, run};
