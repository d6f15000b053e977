//! `mainspring watch` on a terminal of its own.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::process::Child;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Place, hear};

const LEAVES_SCREEN: &str = "\x1b[?1049l";

/// The command on a terminal of 80 columns and 24 rows.
struct Watched {
    child: Child,
    terminal: File,
    seen: String,
}

impl Watched {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let ends = openpty(Some(&size), None).unwrap();
        let slave = || -> OwnedFd { ends.slave.try_clone().unwrap() };
        let mut command = place.command(&[&["watch"], arguments].concat());
        command.env("TERM", "xterm").env("LANG", "C.UTF-8").stdin(slave()).stdout(slave()).stderr(slave());
        let child = command.spawn().unwrap();
        Self { child, terminal: File::from(ends.master), seen: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until this has been drawn since the last time. Only what changes is drawn: a word is safe, a blank may be missing.
    #[track_caller]
    fn see(&mut self, text: &str) {
        let mut buffer = [0; 4096];
        while !self.seen.contains(text) {
            let count = self.terminal.read(&mut buffer).unwrap_or(0);
            assert!(count > 0, "`{text}` was never drawn: {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        self.seen.clear();
    }

    /// Its exit code, and what it wrote until then.
    fn end(mut self) -> (Option<i32>, String) {
        let mut buffer = [0; 4096];
        loop {
            match self.terminal.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.seen.push_str(&String::from_utf8_lossy(&buffer[..count])),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The other end is closed.
                Err(_) => break,
            }
        }
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn watch_needs_a_terminal() {
    let place = Place::new();
    place.call(&["watch"]).expect(2).says(&["watch needs a terminal", "mainspring runs list"]);
    place.call(&["watch", "nonsense"]).expect(2).says(&["is not the id of a run"]);
}

#[test]
fn watch_shows_a_run_and_cancels_it() {
    let place = Place::new();
    let begun = place.fifo("begun");
    place.write(
        "w.yaml",
        "name: slow\ntasks:\n  first: {run: 'echo printed by first; echo x > begun; sleep 1000', cwd: .}\n  second: {needs: first, run: 'true'}\n",
    );
    let server = place.server(&[]);
    let run = place.submit("w.yaml", &[]);
    hear(&begun);
    let url = format!("http://{}", server.address);
    let mut watched = Watched::start(&place, &["--server", &url]);
    watched.see("slow");
    watched.press("\r");
    watched.see("printed");
    watched.press("j");
    watched.see("waits for task `first`");
    watched.press("c");
    watched.see("y/n");
    watched.press("y");
    assert_eq!(place.ended(&run)["status"], "cancelled");
    watched.press("q");
    watched.see("WORKFLOW");
    watched.press("q");
    let (code, seen) = watched.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains(LEAVES_SCREEN), "{seen:?}");
}

#[test]
fn watch_survives_its_server_and_gives_the_terminal_back() {
    let place = Place::new();
    place.write("w.yaml", "name: quick\ntasks:\n  only: {run: 'true'}\n");
    let server = place.server(&[]);
    place.call(&["submit", "w.yaml", "--wait"]).expect(0);
    let url = format!("http://{}", server.address);
    let mut watched = Watched::start(&place, &["--server", &url]);
    watched.see("quick");
    server.kill();
    watched.see("no news");
    watched.press("\x03");
    let (code, seen) = watched.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains(LEAVES_SCREEN), "{seen:?}");
    let missing = Watched::start(&place, &["--server", &url]);
    let (code, seen) = missing.end();
    assert_eq!(code, Some(3), "{seen}");
    assert!(seen.contains("is not reachable") && !seen.contains(LEAVES_SCREEN), "{seen:?}");
}

#[test]
fn watch_works_on_the_database_itself() {
    let place = Place::new();
    place.write("w.yaml", "name: queued\ntasks:\n  only: {run: 'true'}\n");
    let run = place.submit("w.yaml", &[]);
    let mut watched = Watched::start(&place, &[&run]);
    watched.see("no live worker");
    kill(Pid::from_raw(watched.child.id() as i32), Signal::SIGTERM).unwrap();
    let (code, seen) = watched.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains(LEAVES_SCREEN), "{seen:?}");
}
