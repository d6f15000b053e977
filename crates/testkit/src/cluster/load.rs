//! What a cluster has to do meanwhile, besides what [`crate::chaos`] wants: requests over HTTP whose clients vanish,
//! schedules, and operators who act on dead letters.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, anyhow};
use mainspring_core::RunId;
use mainspring_core::dead_letter::Resolution;
use mainspring_engine::{Client, LetterAction, LetterError};
use mainspring_store::{LetterFilter, Operator};
use tokio::sync::watch;

use super::report::Operations;
use crate::http::JsonRequest;
use crate::wait::until;
use crate::workload::LETTERS;

const SCHEDULES: usize = 100;
const BETWEEN_REQUESTS: Duration = Duration::from_millis(120);
const BETWEEN_LETTERS: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(120);
const REQUESTED: &str = "name: requested\ntasks: {a: {function: noop, max_lost: 1000}}";

/// Stores the schedules. They fire until `end`, a time as in YAML, each at its own pace.
pub(super) async fn store_schedules(client: &Client, end: &str) -> anyhow::Result<()> {
    for number in 0..SCHEDULES {
        let every = 6 + number % 10;
        let text = format!(
            "name: schedule-{number}\ntriggers: [{{every: {every}s, end: '{end}', catchup: all}}]\n\
             tasks: {{a: {{function: noop, max_lost: 1000}}}}"
        );
        let workflow = mainspring_core::parse(&text).map_err(|errors| anyhow!("{errors}\n{text}"))?;
        client.put_workflow(workflow, &text).await?;
    }
    let workflow = mainspring_core::parse(REQUESTED).map_err(|errors| anyhow!("{errors}"))?;
    client.put_workflow(workflow, REQUESTED).await?;
    Ok(())
}

/// What came of the requests.
#[derive(Debug, Default)]
pub(super) struct Requested {
    pub(super) operations: Operations,
    pub(super) cut: usize,
    pub(super) runs: Vec<RunId>,
}

fn trigger(token: &str, number: usize) -> JsonRequest {
    JsonRequest {
        method: "POST",
        target: "/api/v1/workflows/requested/trigger".into(),
        token: token.to_owned(),
        key: Some(format!("request-{number}")),
        body: "{}".into(),
    }
}

/// Writes of other kinds, without a key: their outcome is not asked for. `N` is a number of their own.
const FORGOTTEN: [(&str, &str, &str); 5] = [
    ("POST", "/api/v1/scheduler/events/trigger", r#"{"event_name": "e", "data": {}}"#),
    (
        "POST",
        "/api/v1/scheduler/jobs/cron",
        r#"{"name": "jN", "schedule": "0 2 1 1 *", "handler_name": "cleanup:old_traces"}"#,
    ),
    ("POST", "/api/v1/workflows", r#"{"name": "wN", "tasks": {"a": {"run": "true"}}}"#),
    ("PUT", "/api/v1/pools/pN", r#"{"slots": 3}"#),
    ("POST", "/api/v1/dlq/batch", r#"{"action": "resolve", "filter": {"workflow": "nothing"}, "dry_run": true}"#),
];

fn forgotten(token: &str, number: usize) -> JsonRequest {
    let (method, target, body) = FORGOTTEN[number % FORGOTTEN.len()];
    let own = |text: &str| text.replace('N', &number.to_string());
    JsonRequest { method, target: own(target), token: token.to_owned(), key: None, body: own(body) }
}

/// Starts runs at whichever server; every fourth client vanishes. A client without an answer asks again under the same key once
/// the storm is over: that names the one run there is.
pub(super) async fn request(
    servers: Vec<SocketAddr>,
    token: String,
    seed: u64,
    mut over: watch::Receiver<bool>,
) -> anyhow::Result<Requested> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut requested = Requested::default();
    let (mut number, mut unknown) = (0, Vec::new());
    while !*over.borrow() {
        let (server, request) = (servers[rng.usize(..servers.len())], trigger(&token, number));
        if rng.u8(..4) == 0 {
            let after = Duration::from_micros(rng.u64(300..12_000));
            requested.cut += usize::from(request.cut(server, after).await.is_ok());
            requested.cut += usize::from(forgotten(&token, number / 4).cut(server, after).await.is_ok());
            unknown.push(number);
        } else {
            requested.operations.tried += 1;
            match request.send(server).await.ok().and_then(|(status, text)| created(status, &text)) {
                Some(run) => {
                    requested.operations.answered += 1;
                    requested.runs.push(run);
                }
                None => unknown.push(number),
            }
        }
        number += 1;
        _ = tokio::time::timeout(BETWEEN_REQUESTS, over.changed()).await;
    }
    for number in unknown {
        let request = trigger(&token, number);
        let run = until("a request is answered at last", PATIENCE, async || {
            let server = servers[rng.usize(..servers.len())];
            Ok(request.send(server).await.ok().and_then(|(status, text)| created(status, &text)))
        });
        requested.runs.push(run.await.with_context(|| format!("request {number}"))?);
    }
    Ok(requested)
}

/// The run that an answer names.
fn created(status: u16, answer: &str) -> Option<RunId> {
    if !(200..300).contains(&status) {
        return None;
    }
    let body: serde_json::Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1.trim()).ok()?;
    body["id"].as_str()?.parse().ok()
}

/// What became of dead letters.
#[derive(Debug, Default)]
pub(super) struct Acted {
    pub(super) operations: Operations,
    pub(super) letters: Vec<(Option<String>, RunId)>,
}

/// Acts on entries of the workflow whose runs end there, in every way there is.
pub(super) async fn act_on_letters(client: Client, seed: u64, over: watch::Receiver<bool>) -> anyhow::Result<Acted> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let operator = Operator::new("desk", None);
    let mut acted = Acted::default();
    while !*over.borrow() {
        tokio::time::sleep(BETWEEN_LETTERS).await;
        let filter = LetterFilter { status: Some(Resolution::Pending), limit: 20, ..LetterFilter::default() };
        let Ok(letters) = client.store().letters(&filter).await else { continue };
        for letter in letters.into_iter().filter(|letter| letter.workflow == LETTERS) {
            let (_, action) = LetterAction::ALL[rng.usize(..LetterAction::ALL.len())];
            acted.operations.tried += 1;
            match client.act_on_letter(letter.id, action, &operator).await {
                Ok(_) | Err(LetterError::Closed { .. }) => {
                    acted.operations.answered += 1;
                    acted.letters.push((Some(letter.id.to_string()), letter.run));
                }
                // Whether it was applied is unknown: the next look tells.
                Err(LetterError::Store(_) | LetterError::Submit(_) | LetterError::Action(_)) => {
                    acted.letters.push((None, letter.run));
                }
                Err(_) => {}
            }
        }
    }
    Ok(acted)
}
