//! The terminal: taken, drawn on, listened to, and given back however the command ends.

use std::io::Stdout;
use std::thread;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

use super::draw::{self, Sight};
use super::model::{Key, Model};
use crate::failure::{Failure, Result, cause};

/// The other screen of the terminal, in raw mode. Dropping it gives the terminal back, and so does a panic.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub(super) fn take() -> Result<Self> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                ratatui::restore();
                Err(Failure::failed(format!("cannot draw on this terminal: {}", cause(&error))))
            }
        }
    }

    pub(super) fn draw(&mut self, model: &Model, sight: Sight) -> Result<()> {
        let drawn = self.terminal.draw(|frame| draw::draw(frame, model, sight));
        drawn.map(drop).map_err(|error| Failure::failed(format!("the terminal is gone: {}", cause(&error))))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Keys and changes of size, as they come.
pub(super) struct Input {
    events: mpsc::Receiver<std::io::Result<Event>>,
}

impl Input {
    /// Reading blocks, so a thread does it; it ends with the process, or when the receiver is gone.
    pub(super) fn listen() -> Self {
        let (sender, events) = mpsc::channel(64);
        thread::spawn(move || {
            loop {
                let event = event::read();
                let is_over = event.is_err();
                if sender.blocking_send(event).is_err() || is_over {
                    return;
                }
            }
        });
        Self { events }
    }

    /// The next key; `None` is something else that asks for drawing again.
    pub(super) async fn next(&mut self) -> Result<Option<Key>> {
        match self.events.recv().await {
            Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => Ok(meaning(key)),
            Some(Ok(_)) => Ok(None),
            Some(Err(error)) => Err(Failure::failed(format!("cannot read keys: {}", cause(&error)))),
            None => Err(Failure::failed("cannot read keys: the terminal is gone")),
        }
    }
}

pub(super) fn meaning(key: KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        // Raw mode delivers it as a key and not as a signal.
        return (key.code == KeyCode::Char('c')).then_some(Key::Interrupt);
    }
    Some(match key.code {
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Char(letter) => Key::Letter(letter),
        _ => return None,
    })
}
