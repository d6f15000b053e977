//! Looks up claims with `reuse` or `cache` by their keys, before a worker gets them.
//!
//! A result that is found ends the attempt as if a worker had reported it. It is refused like any other if the attempt
//! belongs to another session by then, and after a crash the next attempt looks it up again.

use std::sync::Arc;

use mainspring_core::Scope;
use mainspring_core::work::{CacheOrder, Clock, Completion, Failure, IncomingFile, LogLine, LogStream, Order, Outcome};
use mainspring_core::workflow::CacheKind;
use mainspring_store::{CacheHit, CacheLookup, CacheSource, Claimed, StoredChunk};
use serde_json::Value;

use crate::exchange::completions;
use crate::exchange::scopes::pause;
use crate::live::Hint;
use crate::node::Shared;
use crate::specs::Spec;

/// The result of the lookup.
pub(crate) enum LookupResult {
    /// The task is executed; its order has the cached files.
    Execute,
    /// An earlier result has ended the attempt.
    Reused,
}

/// Looks for an earlier result, then for cached files. Retries while the store is unreachable; `None` when the node
/// stops.
pub(crate) async fn look_up(
    shared: &Arc<Shared>,
    claim: &Claimed,
    spec: &Spec,
    scope: &Scope,
    order: &mut Order,
) -> Option<Result<LookupResult, Failure>> {
    let index = claim.token.key.index as usize;
    let (workflow, task) = (&spec.workflow, &spec.workflow.tasks[index]);
    let keys = match workflow.cache_keys(index, scope) {
        Ok(keys) => keys,
        Err(failure) => return Some(Err(failure)),
    };
    if let (Some(reuse), Some(key)) = (&task.reuse, &keys.reuse) {
        let lookup = CacheLookup {
            kind: CacheKind::Result,
            scope: &format!("{}/{}/{}", workflow.namespace, workflow.name, task.name),
            key,
            ttl_micros: micros(reuse.ttl_ms),
            // A task that an operator repeats must be executed.
            anew: claim.generation > 0,
        };
        if let Some(hit) = find(shared, claim, &lookup).await? {
            reuse_result(shared, claim, key, hit).await?;
            return Some(Ok(LookupResult::Reused));
        }
        order.process.remarks.push(format!("reuse: no result for the key `{key}`, so the task is executed"));
    }
    if let (Some(cache), Some(key)) = (&task.cache, &keys.cache) {
        let lookup = CacheLookup {
            kind: CacheKind::Files,
            scope: &workflow.namespace,
            key,
            ttl_micros: micros(cache.ttl_ms),
            anew: false,
        };
        let mut given = CacheOrder::default();
        if let Some(hit) = find(shared, claim, &lookup).await? {
            given.restored = files_of(shared, hit.source).await?;
            let (files, run) = (given.restored.len(), hit.source.key.run);
            order.process.remarks.push(format!("cache: {files} files of run {run} for the key `{key}`"));
        } else {
            given.saved.clone_from(&cache.paths);
            given.limit = shared.client.artifacts.attempt_limit();
            order.process.remarks.push(format!("cache: no files for the key `{key}`"));
        }
        order.process.cache = Some(Box::new(given));
    }
    Some(Ok(LookupResult::Execute))
}

async fn find(shared: &Shared, claim: &Claimed, lookup: &CacheLookup<'_>) -> Option<Option<CacheHit>> {
    let by = CacheSource { key: claim.token.key, attempt: claim.token.attempt };
    loop {
        match shared.client.store.use_cache(shared.client.now(), by, lookup).await {
            Ok(found) => return Some(found),
            Err(error) => tracing::warn!(%error, task = %by.key, "looking for what is kept by a key"),
        }
        pause(shared).await?;
    }
}

async fn files_of(shared: &Shared, source: CacheSource) -> Option<Vec<IncomingFile>> {
    let rows = loop {
        match shared.client.store.cached_files(source.key, source.attempt).await {
            Ok(rows) => break rows,
            Err(error) => tracing::warn!(%error, task = %source.key, "reading which files are kept by a key"),
        }
        pause(shared).await?;
    };
    let file = |row: mainspring_store::ArtifactRow| IncomingFile {
        task_run_id: source.key,
        attempt: source.attempt,
        path: row.name.clone(),
        name: row.name,
        executable: row.executable,
        bytes: row.bytes.unsigned_abs(),
        sha256: row.sha256,
        cached: true,
    };
    Some(rows.into_iter().map(file).collect())
}

/// Ends an attempt with an earlier result.
async fn reuse_result(shared: &Arc<Shared>, claim: &Claimed, key: &str, hit: CacheHit) -> Option<()> {
    let (token, now) = (claim.token, shared.client.clock.now());
    let source = hit.source.key;
    tracing::info!(task = %token.key, key, source = %source, "an earlier result is reused");
    let text = format!("reuse: the result of task run {source} for the key `{key}`; the task is not executed");
    log(shared, claim, LogLine { at: now, stream: LogStream::System, text }).await?;
    let output: Option<Value> = hit.output.and_then(|output| serde_json::from_str(&output).ok());
    let completion = Completion {
        key: token.key,
        session: token.session,
        attempt: token.attempt,
        started_at: now,
        finished_at: now,
        outcome: Outcome::Success { output },
        artifacts: Vec::new(),
        logged: false,
    };
    completions::take_in(shared, [completion]);
    Some(())
}

/// The only line of an attempt that no worker gets.
async fn log(shared: &Shared, claim: &Claimed, line: LogLine) -> Option<()> {
    let (key, attempt) = (claim.token.key, claim.token.attempt);
    let chunk = StoredChunk { key, attempt, chunk: 1, lines: vec![line] };
    loop {
        match shared.client.store.append_logs(std::slice::from_ref(&chunk)).await {
            Ok(()) => break,
            Err(error) if error.is_transient() => tracing::warn!(%error, "storing log lines"),
            Err(error) => {
                tracing::error!(%error, task = %key, "the store refuses a log line; it is dropped");
                return Some(());
            }
        }
        pause(shared).await?;
    }
    let hints = shared.client.bus.hints();
    if hints.wanted() {
        hints.publish(Hint::Logged { key, attempt, chunk: chunk.chunk });
    }
    Some(())
}

fn micros(ms: u64) -> i64 {
    i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX)
}
