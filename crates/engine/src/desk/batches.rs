//! One action on everything that a filter finds, worked off page by page. The position is durable: after a crash the next
//! leader goes on, and what was closed before is only counted.

use std::collections::BTreeMap;

use mainspring_core::RunId;
use mainspring_core::dead_letter::Resolution;
use mainspring_store::{BatchRow, DeadLetter, LetterFilter, NewBatch, Operator, Reopen, Result};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::actions::{LetterAction, LetterError};
use crate::client::Client;
use crate::node::Shared;

const ENTRIES_AT_ONCE: i64 = 200;
/// How many runs are acted on beside each other.
const RUNS_AT_ONCE: usize = 8;

/// The request for a batch.
#[derive(Debug, Clone)]
pub struct BatchRequest {
    pub filter: LetterFilter,
    pub action: LetterAction,
    pub operator: Operator,
}

impl Client {
    /// How many entries a batch would act on.
    pub async fn count_batch(&self, filter: &LetterFilter) -> Result<i64> {
        let filter = LetterFilter { status: Some(Resolution::Pending), ..filter.clone() };
        self.store.count_letters(&filter, i64::MAX).await
    }

    /// Makes a batch that the leader works off; `None` if there is nothing to do.
    pub async fn start_batch(&self, request: BatchRequest) -> Result<Option<Uuid>> {
        let matched = self.count_batch(&request.filter).await?;
        if matched == 0 {
            return Ok(None);
        }
        let id = self.clock.new_id();
        let (filter, action) = (request.filter, request.action.word().to_owned());
        self.store.add_batch(self.now(), &NewBatch { id, filter, action, operator: request.operator, matched }).await?;
        Ok(Some(id))
    }

    /// Works off the oldest open batch, one page; false if there is none. The leader does, and a command that has the database
    /// at hand.
    pub async fn work_batch(&self) -> Result<bool> {
        let Some(mut batch) = self.store.open_batch().await? else { return Ok(false) };
        let was = batch.position;
        let entries = self.store.batch_entries(&batch, ENTRIES_AT_ONCE).await?;
        batch.position = entries.last().map(|entry| entry.0).or(was);
        let is_last = entries.len() < ENTRIES_AT_ONCE as usize;
        let pending: Vec<Uuid> = entries.iter().filter(|entry| entry.1).map(|entry| entry.0).collect();
        batch.done += (entries.len() - pending.len()) as i64;
        self.act_on_page(&mut batch, pending).await?;
        if is_last {
            batch.is_done = true;
            batch.finished_at = Some(self.now());
        }
        self.store.advance_batch(self.now(), was, &batch).await?;
        self.announce_work().await;
        Ok(true)
    }

    async fn act_on_page(&self, batch: &mut BatchRow, pending: Vec<Uuid>) -> Result<()> {
        if pending.is_empty() {
            return Ok(());
        }
        let Some(action) = LetterAction::parse(&batch.action) else {
            batch.failed += pending.len() as i64;
            batch.error = Some(format!("`{}` is no action", batch.action));
            return Ok(());
        };
        let filter = LetterFilter { limit: pending.len() as i64, ids: pending, ..LetterFilter::default() };
        let mut runs: BTreeMap<RunId, Vec<DeadLetter>> = BTreeMap::new();
        for letter in self.store.letters(&filter).await? {
            runs.entry(letter.run).or_default().push(letter);
        }
        let mut left: Vec<(RunId, Vec<DeadLetter>)> = runs.into_iter().collect();
        while !left.is_empty() {
            let mut acts = JoinSet::new();
            for (run, letters) in left.split_off(left.len().saturating_sub(RUNS_AT_ONCE)) {
                let (client, operator) = (self.clone(), batch.operator.clone());
                acts.spawn(async move { client.act_on_run(run, &letters, action, &operator).await });
            }
            while let Some(outcome) = acts.join_next().await {
                let Ok(outcome) = outcome else { continue };
                let (done, failed, error) = outcome?;
                batch.done += done;
                batch.failed += failed;
                batch.error = batch.error.take().or(error);
            }
        }
        Ok(())
    }

    /// Acts on the entries of one run: a retry takes them together, since it reopens the run.
    async fn act_on_run(
        &self,
        run: RunId,
        letters: &[DeadLetter],
        action: LetterAction,
        operator: &Operator,
    ) -> Result<(i64, i64, Option<String>)> {
        let count = letters.len() as i64;
        let tasks: Vec<usize> = letters.iter().filter_map(|letter| usize::try_from(letter.task?.index).ok()).collect();
        if action == LetterAction::Retry
            && tasks.len() == letters.len()
            && tasks.len() > 1
            && self.is_reopenable(run).await?
        {
            return Ok(match self.reopen(run, &Reopen::FailedOf(tasks), operator).await {
                Ok(_) => (count, 0, None),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => (0, count, Some(error.to_string())),
            });
        }
        let (mut done, mut failed, mut said) = (0, 0, None);
        for letter in letters {
            match self.act_on_letter(letter.id, action, operator).await {
                Ok(_) => done += 1,
                // The other entries of a task close with the first.
                Err(LetterError::Closed { by, .. }) if by == operator.by => done += 1,
                Err(LetterError::Store(error)) if error.is_transient() => return Err(error),
                Err(error) => {
                    failed += 1;
                    said = said.or(Some(error.to_string()));
                }
            }
        }
        Ok((done, failed, said))
    }
}

/// Works off what there is.
pub(super) async fn work(shared: &Shared) -> Result<()> {
    while !shared.stop.is_cancelled() && shared.client.work_batch().await? {}
    Ok(())
}
