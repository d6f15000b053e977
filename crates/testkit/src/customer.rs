//! A client of the store that never takes an unknown outcome for an answer: it asks again, with the same key, or looks.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mainspring_core::state::RunState;
use mainspring_core::workflow::Stage;
use mainspring_core::{RunId, TaskKey};
use mainspring_engine::{Client, SubmitError};
use mainspring_store::{Error, Operator, Reopen, RunSummary};

use crate::audit::{Acknowledged, Attempts, Cancelled, Paused, Reopened};
use crate::workload::{Kind, Order};

const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// Faults and a loaded machine together must not exhaust it.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub struct Customer {
    client: Client,
    operator: Operator,
    /// Answers that were lost.
    pub unknown: usize,
}

impl Customer {
    pub fn new(client: Client) -> Self {
        Self { client, operator: Operator::new("customer", None), unknown: 0 }
    }

    /// Submits until the store has acknowledged it.
    pub async fn submit(&mut self, order: &Order) -> anyhow::Result<Acknowledged> {
        let key = order.submission.idempotency_key.clone().context("an order without a key cannot be repeated")?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.client.submit(&order.kind.spec, order.submission.clone()).await {
                Ok(created) => {
                    let run = created.run().with_context(|| format!("{key} was refused"))?;
                    let Kind { effects, delays, .. } = order.kind.clone();
                    return Ok(Acknowledged { key, run, effects, delays, ends: order.ends() });
                }
                Err(SubmitError::Store(error)) if error.is_transient() => self.unknown += 1,
                Err(error) => return Err(error).with_context(|| format!("submitting {key}")),
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        bail!("{key} was never acknowledged")
    }

    /// Cancels until the store has acknowledged it, and notes how many attempts there were by then.
    pub async fn cancel(&mut self, order: &Order, run: RunId) -> anyhow::Result<Cancelled> {
        self.insist(&format!("the cancel of {run}"), async |customer: &Self| {
            customer.client.cancel(run, &customer.operator).await?;
            let attempts = customer.attempts(order, run).await?;
            Ok(Cancelled { run, attempts, until: None })
        })
        .await
    }

    /// Pauses a run until the store has acknowledged it; `None` if it was not running.
    pub async fn pause(&mut self, run: RunId) -> anyhow::Result<Option<Paused>> {
        self.insist(&format!("the pause of {run}"), async |customer: &Self| {
            match customer.client.pause(run, &customer.operator).await {
                // Its own earlier try may have done it.
                Err(Error::Conflict(_)) if customer.summary(run).await?.state != RunState::Paused => {
                    return Ok(None);
                }
                Err(Error::Conflict(_)) | Ok(()) => {}
                Err(error) => return Err(error),
            }
            let generation = customer.summary(run).await?.generation;
            let before = customer.all_attempts(run).await?;
            Ok(Some(Paused { run, generation, before, after: Vec::new() }))
        })
        .await
    }

    /// Lets a run go on until the store has acknowledged it, and notes how many attempts there were before.
    pub async fn resume(&mut self, paused: Paused) -> anyhow::Result<Paused> {
        let run = paused.run;
        let after = self
            .insist(&format!("a look at {run}"), async |customer: &Self| Ok(customer.all_attempts(run).await?))
            .await?;
        self.insist(&format!("the resumption of {run}"), async |customer: &Self| {
            match customer.client.resume(run, &customer.operator).await {
                Err(Error::Conflict(_)) if customer.summary(run).await?.state != RunState::Paused => {}
                outcome => outcome?,
            }
            Ok(())
        })
        .await?;
        Ok(Paused { after, ..paused })
    }

    /// The run, if it has ended.
    pub async fn ended(&mut self, run: RunId) -> anyhow::Result<Option<RunSummary>> {
        self.insist(&format!("a look at {run}"), async |customer: &Self| {
            let summary = customer.summary(run).await?;
            Ok(summary.state.is_terminal().then_some(summary))
        })
        .await
    }

    /// Reopens a run that has ended, exactly once; `None` if it ended in success.
    pub async fn reopen(&mut self, order: &Order, run: RunId, ended: &RunSummary) -> anyhow::Result<Option<Reopened>> {
        if ended.state == RunState::Success {
            return Ok(None);
        }
        let attempts = self
            .insist(&format!("a look at {run}"), async |customer: &Self| Ok(customer.attempts(order, run).await?))
            .await?;
        let what = if order.from_the_start { Reopen::From(vec![0]) } else { Reopen::Failed };
        self.insist(&format!("the reopening of {run}"), async |customer: &Self| {
            // Whether an earlier try was applied, the generation tells.
            if customer.summary(run).await?.generation == ended.generation {
                match customer.client.reopen(run, &what, &customer.operator).await {
                    // Everything of it had succeeded when it was cancelled.
                    Err(Error::Conflict(_)) => return Ok(None),
                    outcome => _ = outcome?,
                }
            }
            let generation = ended.generation + 1;
            Ok(Some(Reopened { run, generation, attempts: attempts.clone() }))
        })
        .await
    }

    /// Tries until there is an answer.
    async fn insist<T>(
        &mut self,
        what: &str,
        mut attempt: impl AsyncFnMut(&Self) -> mainspring_store::Result<T>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match attempt(self).await {
                Ok(done) => return Ok(done),
                Err(error) if error.is_transient() => self.unknown += 1,
                Err(error) => return Err(error).with_context(|| what.to_owned()),
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        bail!("{what} was never acknowledged")
    }

    async fn summary(&self, run: RunId) -> mainspring_store::Result<RunSummary> {
        self.client.store().run_summary(run).await
    }

    async fn all_attempts(&self, run: RunId) -> mainspring_store::Result<Attempts> {
        let rows = self.client.store().task_runs(run).await?;
        Ok(rows.iter().map(|row| (row.key, row.attempt)).collect())
    }

    /// The attempts of tasks that a cancel stops: all but those of `finally`.
    async fn attempts(&self, order: &Order, run: RunId) -> mainspring_store::Result<Attempts> {
        let tasks = &order.kind.spec.workflow.tasks;
        let is_main = |key: &TaskKey| tasks[key.index as usize].stage != Stage::Finally;
        Ok(self.all_attempts(run).await?.into_iter().filter(|(key, _)| is_main(key)).collect())
    }
}
