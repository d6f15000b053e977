//! An action on everything that a filter finds, performed page by page. The position is durable: after a crash the next
//! leader continues, and entries that were closed before are only counted. A page of retries is one transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use mainspring_boxed::boxed;
use mainspring_core::dead_letter::Resolution;
use mainspring_core::ids::NO_ITEM;
use mainspring_core::{RunId, TaskKey};
use mainspring_store::{BatchRow, DeadLetter, LetterFilter, NewBatch, Operator, Reopen, ReopenRequest, Result};
use uuid::Uuid;

use super::actions::{LetterAction, LetterError};
use crate::bus::BusMessage;
use crate::client::{ANY_WORK, Client};
use crate::node::Shared;
use crate::specs::Spec;

/// The limit on parameters of a statement.
pub const MOST_ENTRIES_AT_ONCE: usize = 1_000;

/// The request for a batch.
#[derive(Debug, Clone)]
pub struct BatchRequest {
    pub filter: LetterFilter,
    pub action: LetterAction,
    pub operator: Operator,
}

#[boxed]
impl Client {
    /// How many entries a batch would act on.
    pub async fn count_batch(&self, filter: &LetterFilter) -> Result<i64> {
        let filter = LetterFilter { status: Some(Resolution::Pending), ..filter.clone() };
        self.store.count_letters(&filter, i64::MAX).await
    }

    /// Creates a batch for the leader to work off; `None` if nothing matches.
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

    /// Works off one page of the oldest open batch; false if there is none. The leader calls this, and so does a
    /// command with access to the database.
    pub async fn work_batch(&self, entries_at_once: usize) -> Result<bool> {
        let Some(mut batch) = self.store.open_batch().await? else { return Ok(false) };
        let was = batch.position;
        let page = entries_at_once.clamp(1, MOST_ENTRIES_AT_ONCE);
        let entries = self.store.batch_entries(&batch, page as i64).await?;
        batch.position = entries.last().map(|entry| entry.0).or(was);
        let is_last = entries.len() < page;
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
        let mut letters = self.store.letters(&filter).await?;
        if action == LetterAction::Retry {
            letters = self.retry_together(batch, letters).await?;
        }
        for letter in letters {
            match self.act_on_letter(letter.id, action, &batch.operator).await {
                Ok(_) => batch.done += 1,
                // The first closed entry of a task closes the others.
                Err(LetterError::Closed { by, .. }) if by == batch.operator.by => batch.done += 1,
                Err(LetterError::Store(error)) if error.is_transient() => return Err(error),
                Err(error) => {
                    batch.failed += 1;
                    batch.error = batch.error.take().or(Some(error.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Reopens the runs of these entries in one transaction, which closes the entries. Returns the entries that cannot
    /// be reopened this way (the task is live, the run is gone), to be handled one by one.
    async fn retry_together(&self, batch: &mut BatchRow, letters: Vec<DeadLetter>) -> Result<Vec<DeadLetter>> {
        let mut runs: BTreeMap<RunId, Vec<DeadLetter>> = BTreeMap::new();
        for letter in letters {
            runs.entry(letter.run).or_default().push(letter);
        }
        let versions: Vec<i64> = runs.values().flatten().map(|letter| letter.version).collect();
        let specs = self.specs.get_many(&versions).await?;
        let wanted: Vec<(RunId, Reopen, &Arc<Spec>)> = runs
            .iter()
            .filter_map(|(run, letters)| Some((*run, to_reopen(letters), specs.get(&letters.first()?.version)?)))
            .collect();
        let now = self.now();
        let unit = async || {
            let requests: Vec<ReopenRequest<'_>> = wanted
                .iter()
                .map(|(run, what, spec)| ReopenRequest {
                    action: self.clock.new_id(),
                    run: *run,
                    workflow: &spec.workflow,
                    what: what.clone(),
                    inputs: None,
                    letters: runs[run].iter().map(|letter| letter.id).collect(),
                })
                .collect();
            self.store.reopen_runs(now, &requests, &batch.operator).await
        };
        let outcomes = self.repeat(unit).await?;
        let mut reopened = Vec::new();
        for ((run, ..), outcome) in wanted.iter().zip(&outcomes) {
            let Ok(_) = outcome else { continue };
            let letters = runs.remove(run).unwrap_or_default();
            batch.done += letters.len() as i64;
            letters.iter().for_each(|letter| self.record_closed(letter, LetterAction::Retry));
            reopened.push(*run);
        }
        self.announce([BusMessage::RunsChanged(reopened), ANY_WORK]).await;
        Ok(runs.into_values().flatten().collect())
    }
}

/// The reopening that retries all these entries of one run.
fn to_reopen(letters: &[DeadLetter]) -> Reopen {
    let keys: Option<Vec<TaskKey>> = letters.iter().map(|letter| letter.task).collect();
    let Some(keys) = keys else { return Reopen::Failed };
    let tasks: Vec<usize> = keys.iter().filter_map(|key| usize::try_from(key.index).ok()).collect();
    if keys.iter().any(|key| key.item != NO_ITEM) { Reopen::FailedOf(tasks) } else { Reopen::From(tasks) }
}

/// Works off all open batches.
pub(super) async fn work(shared: &Shared) -> Result<()> {
    let entries_at_once = shared.config.desk.entries_at_once;
    while !shared.stop.is_cancelled() && shared.client.work_batch(entries_at_once).await? {}
    Ok(())
}
