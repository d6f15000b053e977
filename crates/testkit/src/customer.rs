//! A client of the store that never takes an unknown outcome for an answer: it asks again, with the same key.

use std::time::Duration;

use anyhow::{Context, bail};
use mainspring_core::workflow::Stage;
use mainspring_core::{RunId, TaskKey};
use mainspring_engine::{Client, SubmitError};
use mainspring_store::Operator;

use crate::audit::{Acknowledged, Cancelled};
use crate::workload::{Kind, Order};

const BETWEEN_TRIES: Duration = Duration::from_millis(20);
const MOST_TRIES: usize = 500;

#[derive(Debug)]
pub struct Customer {
    client: Client,
    /// Answers that were lost.
    pub unknown: usize,
}

impl Customer {
    pub fn new(client: Client) -> Self {
        Self { client, unknown: 0 }
    }

    /// Submits until the store has acknowledged it.
    pub async fn submit(&mut self, order: &Order) -> anyhow::Result<Acknowledged> {
        let key = order.submission.idempotency_key.clone().context("an order without a key cannot be repeated")?;
        for _ in 0..MOST_TRIES {
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
        let operator = Operator::new("customer", None);
        for _ in 0..MOST_TRIES {
            let outcome = match self.client.cancel(run, &operator).await {
                Ok(_) => self.attempts(order, run).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(attempts) => return Ok(Cancelled { run, attempts }),
                Err(error) if error.is_transient() => self.unknown += 1,
                Err(error) => return Err(error).with_context(|| format!("cancelling {run}")),
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        bail!("the cancel of {run} was never acknowledged")
    }

    /// The attempts of tasks that a cancel stops: all but those of `finally`.
    async fn attempts(&self, order: &Order, run: RunId) -> mainspring_store::Result<Vec<(TaskKey, i32)>> {
        let tasks = &order.kind.spec.workflow.tasks;
        let rows = self.client.store().task_runs(run).await?;
        let main = rows.iter().filter(|row| tasks[row.key.index as usize].stage != Stage::Finally);
        Ok(main.map(|row| (row.key, row.attempt)).collect())
    }
}
