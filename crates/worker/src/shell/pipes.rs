//! The two pipes a process prints into.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

use mainspring_core::work::{Clock, LogStream};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdout};

use crate::capture::Capture;

const BUFFER_SIZE: usize = 64 * 1024;

thread_local! {
    /// Shared by all attempts of a thread: what is read is digested before the poll ends.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER_SIZE]);
}

/// The pipes of a process. A stream that has ended is `None`.
#[derive(Debug)]
pub(super) struct Pipes {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Pipes {
    pub(super) fn of(child: &mut Child) -> Self {
        Self { stdout: child.stdout.take(), stderr: child.stderr.take() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.stdout.is_some() || self.stderr.is_some()
    }

    /// Ready when anything was read or a stream ended.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, capture: &mut Capture, clock: &dyn Clock) -> Poll<()> {
        let out = poll_one(&mut self.stdout, LogStream::Stdout, context, capture, clock);
        let err = poll_one(&mut self.stderr, LogStream::Stderr, context, capture, clock);
        if out.is_ready() || err.is_ready() { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn poll_one<P: AsyncRead + Unpin>(
    pipe: &mut Option<P>,
    stream: LogStream,
    context: &mut Context<'_>,
    capture: &mut Capture,
    clock: &dyn Clock,
) -> Poll<()> {
    BUFFER.with_borrow_mut(|buffer| {
        let Some(source) = pipe else { return Poll::Pending };
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(source).poll_read(context, &mut buffer) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(())) if !buffer.filled().is_empty() => capture.feed(stream, buffer.filled(), clock.now()),
            // An error of a pipe is as final as its end.
            Poll::Ready(_) => {
                capture.end(stream, clock.now());
                *pipe = None;
            }
        }
        Poll::Ready(())
    })
}
