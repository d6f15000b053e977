//! The spans of runs. A node records what it sees: what made a run, its claims, its attempts and its end; the worker adds
//! what it executes. Nothing is read or kept unless traces go somewhere (see `docs/decisions/`).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use mainspring_core::state::RunState;
use mainspring_core::trace::{RunTrace, SpanOf, TRACEPARENT, TraceContext};
use mainspring_core::work::{Completion, Outcome};
use mainspring_core::{Micros, RunId, TaskKey};
use mainspring_store::{Claimed, EventRow, NewRun};
use mainspring_telemetry::{Kind, Span};
use serde_json::Value;

use crate::client::Client;
use crate::exchange::scopes::pause;
use crate::node::Shared;

/// How many runs' traces are remembered; beyond that all are forgotten and read again.
const MOST_REMEMBERED: usize = 20_000;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Runs `work` within a trace, to which the runs it creates belong.
pub async fn within_trace<T>(context: Option<TraceContext>, work: impl Future<Output = T>) -> T {
    match context {
        Some(context) => CURRENT.scope(context, work).await,
        None => work.await,
    }
}

/// The current trace.
pub fn current_trace() -> Option<TraceContext> {
    CURRENT.try_with(|context| *context).ok()
}

/// The traces of runs that this process works on.
#[derive(Debug, Default)]
pub(crate) struct RunTraces(Mutex<HashMap<RunId, RunTraceEntry>>);

#[derive(Debug, Clone, Copy)]
struct RunTraceEntry {
    trace: RunTrace,
    /// The version of its workflow, if a task of it was claimed here.
    version: Option<i64>,
}

/// The stored trigger of a run, with the current trace.
pub(crate) fn traced(trigger: Option<Value>) -> Option<Value> {
    let Some(context) = current_trace() else { return trigger };
    let mut trigger = trigger.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    if let Value::Object(fields) = &mut trigger {
        fields.entry(TRACEPARENT).or_insert_with(|| context.to_string().into());
    }
    Some(trigger)
}

impl Client {
    /// The trace of a run with this trigger. A run that was triggered outside of any trace is recorded as often as configured.
    pub fn run_trace(&self, run: RunId, trigger: Option<&Value>) -> RunTrace {
        let mut trace = RunTrace::new(run, trigger);
        if !trace.is_given() {
            trace.sampled = self.tracer.samples(trace.trace_id());
        }
        trace
    }

    /// The traces of these runs, as far as the store can say.
    async fn read_traces(&self, runs: &[RunId]) -> mainspring_store::Result<HashMap<RunId, RunTrace>> {
        let data = self.store.expression_data(runs, &[], &[]).await?;
        Ok(runs.iter().map(|run| (*run, self.run_trace(*run, data.triggers.get(run)))).collect())
    }

    /// The span of an attempt, if traces go somewhere and its run is known here.
    pub(crate) fn attempt_context(&self, key: TaskKey, attempt: i32) -> Option<TraceContext> {
        let trace = self.tracer.is_on().then(|| self.traces.known(&[key.run]).remove(&key.run)).flatten()?;
        Some(trace.span(SpanOf::Execution(key, attempt)))
    }

    /// The span of a run that makes another, as its task or by an event; nothing if traces go nowhere.
    pub(crate) async fn run_context(&self, run: Option<RunId>) -> Option<TraceContext> {
        let run = run.filter(|_| self.tracer.is_on())?;
        match self.read_traces(&[run]).await {
            Ok(mut read) => read.remove(&run).map(|trace| trace.span(SpanOf::Run)),
            Err(error) => {
                tracing::debug!(%error, run_id = %run, "a run that another made begins a trace of its own");
                None
            }
        }
    }

    /// The span that an event was announced in, whatever has become of the process that announced it.
    pub(crate) async fn event_context(&self, event: &EventRow) -> Option<TraceContext> {
        match event.trace {
            None => self.run_context(event.run).await,
            stored => stored,
        }
    }

    /// Records that a schedule or an event has created a run.
    pub(crate) fn trace_start(&self, run: &NewRun, since: Micros) {
        if !self.tracer.is_on() {
            return;
        }
        let trigger = run.trigger.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let trace = self.run_trace(run.id, trigger.as_ref());
        let own = trace.span(SpanOf::Start);
        if trace.parent.is_none_or(|parent| parent.span_id != own.span_id) {
            return;
        }
        let kind = trigger.as_ref().and_then(|trigger| trigger.get("kind")?.as_str()).unwrap_or("start").to_owned();
        self.tracer.record(Span {
            context: own,
            parent: None,
            kind: Kind::Producer,
            name: kind.into(),
            start: since,
            end: self.now(),
            attributes: vec![("run_id", run.id.to_string()), ("workflow", run.version.name.clone())],
            error: None,
        });
    }
}

/// Records the claims, and gives the context that each attempt is executed in. However long the store is away; `None` when
/// the node stops.
pub(crate) async fn claimed(shared: &Shared, claims: &[Claimed]) -> Option<HashMap<RunId, RunTrace>> {
    let client = &shared.client;
    if !client.tracer.is_on() {
        return Some(HashMap::new());
    }
    let mut runs: Vec<RunId> = claims.iter().map(|claim| claim.token.key.run).collect();
    runs.sort_unstable();
    runs.dedup();
    let mut known = client.traces.known(&runs);
    runs.retain(|run| !known.contains_key(run));
    while !runs.is_empty() {
        match client.read_traces(&runs).await {
            Ok(read) => {
                known.extend(read);
                break;
            }
            Err(error) => tracing::warn!(%error, "reading the traces of runs"),
        }
        pause(shared).await?;
    }
    let now = client.now();
    for claim in claims {
        let Some(trace) = known.get(&claim.token.key.run) else { continue };
        client.traces.remember(*trace, Some(claim.version));
        let (key, attempt) = (claim.token.key, claim.token.attempt);
        client.tracer.record(Span {
            context: trace.span(SpanOf::Claim(key, attempt)),
            parent: Some(trace.span(SpanOf::Run).span_id),
            kind: Kind::Consumer,
            name: "claim".into(),
            start: claim.due_at.min(now),
            end: now,
            attributes: vec![
                ("run_id", key.run.to_string()),
                ("task_run_id", key.to_string()),
                ("attempt", attempt.to_string()),
                ("node", shared.config.name.clone()),
            ],
            error: None,
        });
    }
    Some(known)
}

/// An attempt as its worker reports it.
pub(crate) fn attempt_ended(shared: &Shared, completion: &Completion) {
    let client = &shared.client;
    if !client.tracer.is_on() {
        return;
    }
    let Some(trace) = client.traces.known(&[completion.key.run]).remove(&completion.key.run) else { return };
    let (key, attempt) = (completion.key, completion.attempt);
    client.tracer.record(Span {
        context: trace.span(SpanOf::Execution(key, attempt)),
        parent: Some(trace.span(SpanOf::Claim(key, attempt)).span_id),
        kind: Kind::Internal,
        name: "execution".into(),
        start: completion.started_at,
        end: completion.finished_at,
        attributes: vec![
            ("run_id", key.run.to_string()),
            ("task_run_id", key.to_string()),
            ("attempt", attempt.to_string()),
            ("session", completion.session.to_string()),
        ],
        error: match &completion.outcome {
            Outcome::Failed(failure) => Some(failure.kind.clone()),
            Outcome::Cancelled { .. } => Some("cancelled".into()),
            Outcome::Success { .. } | Outcome::Released => None,
        },
    });
}

/// A run has ended.
pub(crate) fn run_ended(client: &Client, run: RunId, state: RunState, created: Micros, now: Micros) {
    if !client.tracer.is_on() {
        return;
    }
    let ended = RunEnd { run, state, created, now };
    match client.traces.forget(run) {
        Some(known) => ended.record(client, known),
        None => {
            let client = client.clone();
            // No task of the run was claimed here.
            tokio::spawn(async move {
                match client.read_traces(&[run]).await {
                    Ok(read) => read
                        .into_values()
                        .for_each(|trace| ended.record(&client, RunTraceEntry { trace, version: None })),
                    Err(error) => tracing::debug!(%error, run_id = %run, "a trace lacks the end of its run"),
                }
            });
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct RunEnd {
    run: RunId,
    state: RunState,
    created: Micros,
    now: Micros,
}

impl RunEnd {
    fn record(self, client: &Client, RunTraceEntry { trace, version }: RunTraceEntry) {
        let spec = version.and_then(|version| client.specs.cached(version));
        client.tracer.record(Span {
            context: trace.span(SpanOf::Run),
            parent: trace.parent.map(|parent| parent.span_id),
            kind: Kind::Internal,
            name: spec.map_or_else(|| "run".into(), |spec| format!("run {}", spec.workflow.name).into()),
            start: self.created,
            end: self.now,
            attributes: vec![("run_id", self.run.to_string()), ("status", self.state.word().to_owned())],
            error: (self.state == RunState::Failed).then(|| self.state.word().to_owned()),
        });
    }
}

impl RunTraces {
    fn known(&self, runs: &[RunId]) -> HashMap<RunId, RunTrace> {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().filter_map(|run| Some((*run, remembered.get(run)?.trace))).collect()
    }

    fn remember(&self, trace: RunTrace, version: Option<i64>) {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MOST_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(trace.run, RunTraceEntry { trace, version });
    }

    fn forget(&self, run: RunId) -> Option<RunTraceEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&run)
    }
}
