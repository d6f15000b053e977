//! SIGINT and SIGTERM, as often as they come.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Result};

#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on these signals do not end the process by themselves.
    pub(crate) fn install() -> Result<Self> {
        let install =
            |kind| signal(kind).map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")));
        Ok(Self { interrupt: install(SignalKind::interrupt())?, terminate: install(SignalKind::terminate())? })
    }

    /// The next SIGINT; others are taken and change nothing.
    pub(crate) async fn interrupted(&mut self) {
        while self.next().await != "SIGINT" {}
    }

    /// The next one, by name.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
