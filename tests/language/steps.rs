//! What is done to runs meanwhile. One line each; what goes wrong is noted and belongs to the outcome.
//!
//! | step | does |
//! | --- | --- |
//! | `submit [NAME] [INPUTS]` | submits a workflow, the first unless named; `range(3)` in inputs is `[0,1,2]` |
//! | `until PATH STATE` | waits until a task run, or the run `#2`, is in a state |
//! | `end [#N]` | waits until a run has ended, the first unless named |
//! | `say PATH` | notes the state now |
//! | `show [#N]` | notes everything about a run now |
//! | `approve PATH`, `reject PATH` | with `by NAME`, `as ROLE,ROLE`, `because TEXT` |
//! | `deliver PATH JSON`, `deliver-failure PATH TEXT` | an external result |
//! | `emit NAME [key=KEY] [JSON]` | announces an event |
//! | `flood N NAME` | as if N events with the key `other` had been announced |
//! | `cancel`, `pause`, `resume` `[#N or PATH]` | a run; with a path the one that this task started |
//! | `retry [#N]`, `rerun TASK…` | what failed, or the first run from these tasks on |
//! | `held N GATE` | waits until N tasks are held: one that is running may not be there yet |
//! | `open GATE`, `peak GATE` | lets held tasks go; notes how many were held at once |
//! | `pool NAME SLOTS` | bounds a pool |
//! | `expire [PATH, #N or run-of PATH]` | the time that a task run waits for, or the deadline of a run, is now |
//! | `lose` | the worker's session is found dead |
//!
//! A path is `task`, `task[2]`, `task/task-of-the-run-it-started`, each with `#2/` in front for the second run.

use anyhow::{Context, anyhow, bail};
use mainspring_core::{RunId, TaskKey};
use mainspring_engine::{Answer, NewEvent};
use mainspring_store::{Operator, Reopen};
use mainspring_testkit::wait::until;
use serde_json::{Map, Value};

use crate::scene::{PATIENCE, Play};
use crate::{meddling, report};

impl Play<'_> {
    pub(crate) async fn step(&mut self, step: &str) -> anyhow::Result<()> {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match word {
            "submit" => self.submit_step(rest).await,
            "until" => self.until(rest).await,
            "end" => self.until_ended(self.run(rest).await?).await,
            "say" => {
                let state = self.state(rest).await?;
                self.notes.push(format!("{rest} is {}", state.as_deref().unwrap_or("not there")));
                Ok(())
            }
            "show" => {
                let shown = report::describe(self.scene.client(), self.run(rest).await?).await?;
                self.notes.push(format!("{shown}\nthen"));
                Ok(())
            }
            "approve" | "reject" | "deliver" | "deliver-failure" => self.answer(word, rest).await,
            "emit" => self.emit(rest).await,
            "flood" => {
                let (count, name) = rest.split_once(' ').context("flood N NAME")?;
                let now = self.scene.client().now();
                meddling::events(self.scene.url(), &self.namespace, name, count.parse()?, now).await
            }
            "cancel" | "pause" | "resume" | "retry" | "rerun" => self.operate(word, rest).await,
            "open" => {
                self.scene.gates.open(&self.namespace, rest);
                Ok(())
            }
            "held" => self.held(rest).await,
            "peak" => {
                self.notes.push(format!("{rest} held {} at once", self.scene.gates.peak(&self.namespace, rest)));
                Ok(())
            }
            "pool" => {
                let (name, slots) = rest.split_once(' ').context("a pool has a number of slots")?;
                let client = self.scene.client();
                Ok(client.store().set_pool(client.now(), &self.namespace, name, Some(slots.parse()?)).await?)
            }
            "expire" => self.expire(rest).await,
            "lose" => self.lose().await,
            _ => bail!("there is no such step"),
        }
    }

    async fn submit_step(&mut self, rest: &str) -> anyhow::Result<()> {
        let (name, inputs) = match rest.split_once('{') {
            Some((name, _)) => (name.trim(), serde_json::from_str(&with_ranges(&rest[name.len()..]))?),
            None => (rest, Map::new()),
        };
        self.submit((!name.is_empty()).then_some(name), inputs).await
    }

    async fn until(&self, rest: &str) -> anyhow::Result<()> {
        let (path, wanted) = rest.rsplit_once(' ').context("until PATH STATE")?;
        let mut last = None;
        let found = until(rest, PATIENCE, async || {
            last = self.state(path).await?;
            Ok((last.as_deref() == Some(wanted)).then_some(()))
        })
        .await;
        found.map_err(|error| error.context(format!("it is {last:?}")))
    }

    async fn held(&self, rest: &str) -> anyhow::Result<()> {
        let (count, gate) = rest.split_once(' ').context("held N GATE")?;
        let count: usize = count.parse()?;
        let inside = || self.scene.gates.inside(&self.namespace, gate);
        until(rest, PATIENCE, async || Ok((inside() >= count).then_some(()))).await
    }

    /// The state of a run or task run; none if there is no such row yet.
    async fn state(&self, path: &str) -> anyhow::Result<Option<String>> {
        let store = self.scene.client().store();
        if let Some(number) = path.strip_prefix('#').and_then(|number| number.parse::<usize>().ok()) {
            return Ok(Some(store.run_summary(self.numbered(number)?).await?.state.to_string()));
        }
        let Some(key) = self.find(path).await? else { return Ok(None) };
        let rows = store.task_runs(key.run).await?;
        Ok(rows.into_iter().find(|row| row.key == key).map(|row| row.state.to_string()))
    }

    fn numbered(&self, number: usize) -> anyhow::Result<RunId> {
        let run = self.runs.get(number - 1).with_context(|| format!("there are {} runs", self.runs.len()))?;
        run.ok_or_else(|| anyhow!("run {number} was refused"))
    }

    /// The run that `#N`, the run that a path's task started, or for nothing the first.
    async fn run(&self, text: &str) -> anyhow::Result<RunId> {
        match text.strip_prefix('#').and_then(|number| number.parse().ok()) {
            Some(number) => self.numbered(number),
            None if text.is_empty() => self.numbered(1),
            None => {
                let key = self.find(text).await?.context("there is no such task")?;
                self.child(key).await?.with_context(|| format!("{text} has started no run"))
            }
        }
    }

    async fn child(&self, key: TaskKey) -> anyhow::Result<Option<RunId>> {
        Ok(self.scene.client().store().wait(key).await?.and_then(|wait| wait.child))
    }

    /// The task run at the end of a path; none if a run on the way is not there yet.
    async fn find(&self, path: &str) -> anyhow::Result<Option<TaskKey>> {
        let client = self.scene.client();
        let (number, tasks) = match path.strip_prefix('#').and_then(|rest| rest.split_once('/')) {
            Some((number, tasks)) => (number.parse()?, tasks),
            None => (1, path),
        };
        let mut run = self.numbered(number)?;
        let mut parts = tasks.split('/').peekable();
        while let Some(part) = parts.next() {
            let (name, item) = match part.trim_end_matches(']').split_once('[') {
                Some((name, item)) => (name, item.parse()?),
                None => (part, -1),
            };
            let spec = client.spec(client.store().run_summary(run).await?.version).await?;
            let index = spec.workflow.tasks.iter().position(|task| task.name == name);
            let index = index.with_context(|| format!("there is no task `{name}`"))?;
            let key = TaskKey { run, index: index as i32, item };
            if parts.peek().is_none() {
                return Ok(Some(key));
            }
            match self.child(key).await? {
                None => return Ok(None),
                Some(child) => run = child,
            }
        }
        Ok(None)
    }

    async fn answer(&mut self, word: &str, rest: &str) -> anyhow::Result<()> {
        let (path, said) = rest.split_once(' ').unwrap_or((rest, ""));
        let key = self.find(path).await?.context("there is no such task")?;
        let mut operator = Operator::new("ann", None);
        let mut roles: Option<Vec<String>> = None;
        let answer = match word {
            "deliver" => Answer::Deliver { output: serde_json::from_str(said)? },
            "deliver-failure" => Answer::DeliverFailure { message: said.to_owned() },
            _ => {
                let (before, because) = said.split_once("because ").unwrap_or((said, ""));
                operator.reason = (!because.is_empty()).then(|| because.to_owned());
                let words: Vec<&str> = before.split_whitespace().collect();
                for pair in words.chunks(2) {
                    match pair {
                        ["by", name] => operator.by = (*name).to_owned(),
                        ["as", names] => roles = Some(names.split(',').map(str::to_owned).collect()),
                        other => bail!("{other:?} is neither `by NAME` nor `as ROLE`"),
                    }
                }
                if word == "approve" { Answer::Approve } else { Answer::Reject }
            }
        };
        let result = self.scene.client().answer(key, &answer, &operator, roles.as_deref()).await;
        if let Err(error) = result {
            self.notes.push(report::redacted(&format!("{word} {path}: {error}")));
        }
        Ok(())
    }

    async fn emit(&mut self, rest: &str) -> anyhow::Result<()> {
        let (words, data) = match rest.find(['{', '[']) {
            Some(at) => (&rest[..at], serde_json::from_str(&rest[at..])?),
            None => (rest, Value::Null),
        };
        let mut words = words.split_whitespace();
        let name = words.next().context("an event has a name")?.to_owned();
        let key = words.next().and_then(|word| word.strip_prefix("key=")).map(str::to_owned);
        let event = NewEvent { namespace: self.namespace.clone(), name, key, data, source: "test".into() };
        if let Err(error) = self.scene.client().emit(event).await {
            self.notes.push(format!("emit: {error}"));
        }
        Ok(())
    }

    async fn operate(&mut self, word: &str, rest: &str) -> anyhow::Result<()> {
        let client = self.scene.client();
        let operator = Operator::new("ann", Some("a test".into()));
        let run = self.run(if word == "rerun" { "" } else { rest }).await?;
        let result = match word {
            "cancel" => client.cancel(run, &operator).await.map(drop),
            "pause" => client.pause(run, &operator).await,
            "resume" => client.resume(run, &operator).await,
            "retry" => client.reopen(run, &Reopen::Failed, &operator).await.map(drop),
            _ => {
                let spec = client.spec(client.store().run_summary(run).await?.version).await?;
                let tasks = &spec.workflow.tasks;
                let place = |name| tasks.iter().position(|task| task.name == name).context("there is no such task");
                let from = rest.split_whitespace().map(place).collect::<anyhow::Result<Vec<_>>>()?;
                client.reopen(run, &Reopen::From(from), &operator).await.map(drop)
            }
        };
        if let Err(error) = result {
            self.notes.push(report::redacted(&format!("{step}: {error}", step = format!("{word} {rest}").trim())));
        }
        Ok(())
    }

    async fn expire(&self, rest: &str) -> anyhow::Result<()> {
        let client = self.scene.client();
        let of_run = rest.strip_prefix("run-of ").unwrap_or(rest);
        if of_run != rest || rest.is_empty() || rest.starts_with('#') && !rest.contains('/') {
            return meddling::run(self.scene.url(), self.run(of_run).await?, client.now()).await;
        }
        let key = self.find(rest).await?.context("there is no such task")?;
        meddling::task(self.scene.url(), key, client.now()).await
    }

    async fn lose(&self) -> anyhow::Result<()> {
        let client = self.scene.client();
        for session in client.store().live_sessions().await? {
            client.store().end_session(client.now(), session.id).await?;
        }
        Ok(())
    }
}

/// The text with every `range(N)` written out.
fn with_ranges(text: &str) -> String {
    let Some((before, rest)) = text.split_once("range(") else { return text.to_owned() };
    let (count, after) = rest.split_once(')').unwrap_or((rest, ""));
    let numbers: Vec<u32> = (0..count.parse().unwrap_or(0)).collect();
    format!("{before}{numbers:?}{}", with_ranges(after))
}
