//! `mainspring watch`: runs and their tasks on a terminal, as they go.
//!
//! The loop here only carries messages: keys and answers into the [`Model`], what it wants done to the API, and the model to
//! the screen. A server tells by server-sent events that something has changed, a database is looked at every second. What
//! fails to answer is said on the screen and tried again; only the first look may end the command.

mod draw;
mod draw_run;
mod look;
mod model;
mod shapes;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use mainspring_core::work::Clock as _;
use mainspring_engine::SystemClock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::draw::Sight;
use self::model::{Effect, Message, Model};
use self::terminal::{Input, Screen};
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::ids::{check_run, find_run};
use crate::output::plain;
use crate::signals::Signals;

/// Between two looks without live updates; also while one run is shown, whose log sends none.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks with live updates.
const LOOK_RARELY: Duration = Duration::from_secs(5);
/// Many updates may come within a moment.
const LOOK_AT_MOST: Duration = Duration::from_millis(250);
/// Counting is dear.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// Between two attempts to follow a server.
const FOLLOW_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Only this run [default: the runs of the namespace]
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

pub(crate) async fn watch(app: &App<'_>, args: WatchArgs) -> Result {
    args.run.as_deref().map(check_run).transpose()?;
    require_terminal(app)?;
    if !std::io::stderr().is_terminal() {
        app.start_logs();
    }
    let api = Arc::new(Connection::open_existing(app).await?);
    let run = match args.run.as_deref() {
        Some(run) => Some(find_run(&api, run).await?.to_string()),
        None => None,
    };
    let mut model = Model::new(plain(&api.place()), api.namespace().map(str::to_owned), run);
    let clock = SystemClock::new();
    // Whatever is wrong with address, token or run is said before the screen is taken.
    let first = look::look(&api, &model.wanted(), true, clock.now()).await?;
    model.update(Message::Looked(Ok(first)));
    let signals = Signals::install()?;
    let is_colored = app.out.is_colored();
    let mut screen = Screen::take()?;
    let mut watch = Watch::new(api, model, clock);
    watch.follow();
    watch.run(&mut screen, signals, is_colored).await
}

/// It needs a terminal to draw on and keys to read.
fn require_terminal(app: &App<'_>) -> Result<()> {
    let is_shown = app.out.is_terminal() && std::io::stdin().is_terminal();
    if is_shown && app.out.format.is_none() {
        return Ok(());
    }
    let message = match is_shown {
        true => "watch draws on the terminal and has no other output",
        false => "watch needs a terminal, and this is none",
    };
    Err(Failure::bad_input(message)
        .remedy("use `mainspring runs list` or `mainspring runs get RUN`, with -o json for programs"))
}

struct Watch {
    api: Arc<Connection>,
    model: Model,
    clock: SystemClock,
    /// Looks, actions, and what follows the server. One that panics ends the command.
    jobs: JoinSet<Done>,
    events: mpsc::Receiver<ServerEvent>,
    sender: mpsc::Sender<ServerEvent>,
    is_looking: bool,
    next_look: Instant,
    last_look: Instant,
    next_count: Instant,
}

/// What a job has come to.
enum Done {
    Looked(Message),
    Acted(Message),
}

/// An event of the server.
enum ServerEvent {
    Live(bool),
    Changed,
}

impl Watch {
    fn new(api: Arc<Connection>, model: Model, clock: SystemClock) -> Self {
        let (sender, events) = mpsc::channel(4);
        let now = Instant::now();
        let next_count = now + COUNT_EVERY;
        Self {
            api,
            model,
            clock,
            jobs: JoinSet::new(),
            events,
            sender,
            is_looking: false,
            next_look: now,
            last_look: now,
            next_count,
        }
    }

    async fn run(&mut self, screen: &mut Screen, mut signals: Signals, is_colored: bool) -> Result {
        let mut input = Input::listen();
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            screen.draw(&self.model, Sight { now: self.clock.now(), is_colored })?;
            let effect = tokio::select! {
                _ = signals.next() => return Ok(Exit::Interrupted),
                key = input.next() => match key? {
                    Some(key) => self.model.update(Message::Key(key)),
                    None => Effect::None,
                },
                Some(done) = self.jobs.join_next() => self.finish(done)?,
                Some(event) = self.events.recv() => self.receive(event),
                () = tokio::time::sleep_until(self.next_look), if !self.is_looking => {
                    self.look();
                    Effect::None
                }
                // Ages go on.
                _ = ticks.tick() => Effect::None,
            };
            match effect {
                Effect::None => {}
                Effect::Look => self.next_look = Instant::now(),
                Effect::Act(act, run) => {
                    let api = self.api.clone();
                    self.jobs.spawn(async move {
                        let words = look::act(&api, act, &run).await;
                        Done::Acted(Message::Acted(words.map_err(|failure| plain(&failure.message))))
                    });
                }
                Effect::End(exit) => return Ok(exit),
            }
        }
    }

    fn look(&mut self) {
        let now = Instant::now();
        let counts = now >= self.next_count;
        if counts {
            self.next_count = now + COUNT_EVERY;
        }
        (self.is_looking, self.last_look) = (true, now);
        let (api, wanted, now) = (self.api.clone(), self.model.wanted(), self.clock.now());
        let is_rare = self.model.is_live && self.model.opened.is_none();
        self.next_look = self.last_look + if is_rare { LOOK_RARELY } else { LOOK_EVERY };
        self.jobs.spawn(async move {
            let look = look::look(&api, &wanted, counts, now).await;
            Done::Looked(Message::Looked(look.map_err(|failure| plain(&failure.message))))
        });
    }

    fn finish(&mut self, done: std::result::Result<Done, tokio::task::JoinError>) -> Result<Effect> {
        match done {
            Ok(Done::Looked(message)) => {
                self.is_looking = false;
                Ok(self.model.update(message))
            }
            Ok(Done::Acted(message)) => Ok(self.model.update(message)),
            Err(error) => Err(Failure::failed(format!("a part of watch has broken down: {error}"))),
        }
    }

    fn receive(&mut self, event: ServerEvent) -> Effect {
        match event {
            ServerEvent::Live(is_live) => {
                // Something may have happened unheard.
                self.next_look = self.next_look.min(self.last_look + LOOK_AT_MOST);
                self.model.update(Message::Live(is_live))
            }
            ServerEvent::Changed => {
                self.next_look = self.next_look.min(self.last_look + LOOK_AT_MOST);
                Effect::None
            }
        }
    }

    /// Listens to the server as long as this lives, connecting again and again.
    fn follow(&mut self) {
        if self.api.client().is_some() {
            return;
        }
        let (api, sender) = (self.api.clone(), self.sender.clone());
        self.jobs.spawn(async move {
            let query = [("namespace", api.namespace()), ("types", Some("workflow_status,task_status"))];
            loop {
                if let Ok(Some(mut changes)) = api.events(&["events", "stream"], &query).await {
                    _ = sender.send(ServerEvent::Live(true)).await;
                    while changes.next().await.is_some() {
                        // If there is no room, an update is pending already.
                        _ = sender.try_send(ServerEvent::Changed);
                    }
                    _ = sender.send(ServerEvent::Live(false)).await;
                }
                tokio::time::sleep(FOLLOW_AGAIN).await;
            }
        });
    }
}
