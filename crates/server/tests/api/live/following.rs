//! Every number of a run once, in order, without a gap: for many clients, through many reconnects, while runs execute.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mainspring_core::RunId;
use mainspring_engine::Spec;
use mainspring_server::Role;
use mainspring_store::{Flavor, Operator, Reopen};
use serde_json::Value;
use tokio_tungstenite::tungstenite;

use super::wire::{Site, connect, is_end, next, number};

const KINDS: &[&str] = &[
    "{name: job, tasks: {a: {function: noop}}}",
    "{name: chain, tasks: {a: {function: noop}, b: {needs: a, function: {handler: sleep, payload: {ms: 20}}}, c: {needs: b, function: noop}}}",
    "{name: retries, tasks: {a: {function: {handler: fail, payload: {times: 2}}, retry: {attempts: 4, delay: 20ms, jitter: 0}}, b: {needs: a, function: noop}}}",
    "{name: fails, tasks: {a: {function: fail, retry: {attempts: 2, delay: 10ms}, on_exhausted: fail}, b: {needs: a, function: noop}}, \
      on_failure: {tell: {function: noop}}, finally: {clean: {function: noop}}}",
    "{name: items, tasks: {a: {function: noop, foreach: [1, 2, 3, 4], max_parallel: 2}, b: {needs: a, function: noop}}}",
];

async fn kinds(site: &Site) -> Vec<Arc<Spec>> {
    let mut specs = Vec::new();
    for yaml in KINDS {
        specs.push(site.workflow(yaml).await);
    }
    specs
}

/// Follows a run to its end, leaving and coming back after every few messages; the numbers in the order they came.
async fn follow(address: std::net::SocketAddr, token: &str, run: RunId, few: usize) -> Vec<i64> {
    let bearer = format!("Bearer {token}");
    let mut numbers: Vec<i64> = Vec::new();
    loop {
        let after = numbers.last().copied().unwrap_or(0);
        let query = format!("run={run}&seq={after}");
        // A server under load may drop a connection that is being made; the subscriber connects again.
        let mut socket = match connect(address, &query, &[("authorization", &bearer)]).await {
            Ok(socket) => socket,
            Err(tungstenite::Error::Http(answer)) => panic!("{query}: {}", answer.status()),
            Err(_) => continue,
        };
        let mut seen = 0;
        while seen < few {
            let Some(message) = next(&mut socket).await else { break };
            assert_eq!(message["run"], run.to_string(), "{message}");
            let Some(number) = number(&message) else { continue };
            numbers.push(number);
            seen += 1;
            if is_end(&message) {
                return numbers;
            }
        }
    }
}

struct Storm {
    clients: usize,
    /// Runs that each client follows, one after the other: every n-th of those that are made.
    runs_each: usize,
    one_in: usize,
    runs_per_second: usize,
    lasts: Duration,
}

/// Runs are made at a pace while clients follow them; what is followed is checked against the store.
async fn storm(flavor: Flavor, storm: Storm) {
    let site = Site::open(flavor).await;
    let specs = kinds(&site).await;
    let token = site.api.token(Role::Viewer).to_owned();
    let address = site.address;
    let (runs, _) = tokio::sync::broadcast::channel::<RunId>(100_000);
    let followed = Arc::new(AtomicUsize::new(0));
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..storm.clients {
        let (mut fresh, token, store) = (runs.subscribe(), token.clone(), site.client().store().clone());
        let followed = Arc::clone(&followed);
        let (count, one_in) = (storm.runs_each, storm.one_in);
        clients.spawn(async move {
            let mut nth = 0;
            let mut left = count;
            while left > 0 {
                let Ok(run) = fresh.recv().await else { return };
                nth += 1;
                // Each client follows other runs than its neighbours, and some of the same.
                if (nth + client) % one_in != 0 {
                    continue;
                }
                left -= 1;
                let numbers = follow(address, &token, run, 1 + (nth + client) % 4).await;
                let seq = store.run_summary(run).await.unwrap().seq;
                assert_eq!(numbers, (1..=seq).collect::<Vec<_>>(), "client {client} followed run {run}");
                followed.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let begin = Instant::now();
    let mut made = 0;
    while !clients.is_empty() {
        let behind = (begin.elapsed().as_secs_f64() * storm.runs_per_second as f64) as usize;
        while made < behind {
            let run = site.submit(&specs[made % specs.len()]).await;
            made += 1;
            // All subscribers may have left.
            let _ = runs.send(run);
        }
        if begin.elapsed() > storm.lasts {
            // A subscriber that waits for a run which will not be made is done.
            break;
        }
        tokio::select! {
            Some(client) = clients.join_next() => client.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
    drop(runs);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let followed = followed.load(Ordering::Relaxed);
    assert!(followed >= storm.clients, "{} clients have followed only {followed} of {made} runs", storm.clients);
    site.deserted().await;
    site.close().await;
}

fn small() -> Storm {
    Storm { clients: 40, runs_each: 3, one_in: 4, runs_per_second: 20, lasts: Duration::from_secs(60) }
}

fn large() -> Storm {
    Storm { clients: 500, runs_each: 10, one_in: 300, runs_per_second: 50, lasts: Duration::from_secs(60) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_clients_that_come_and_go_miss_nothing_on_postgres() {
    storm(Flavor::Postgres, small()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_clients_that_come_and_go_miss_nothing_on_sqlite() {
    storm(Flavor::Sqlite, small()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_heavy_five_hundred_clients_miss_nothing_on_postgres() {
    storm(Flavor::Postgres, large()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_heavy_five_hundred_clients_miss_nothing_on_sqlite() {
    storm(Flavor::Sqlite, large()).await;
}

async fn goes_on_after_a_reopening(flavor: Flavor) {
    let site = Site::open(flavor).await;
    let spec = site.workflow(KINDS[3]).await;
    let run = site.submit(&spec).await;
    let mut socket = site.connect(&format!("run={run}")).await;
    let first = next(&mut socket).await.unwrap();
    assert_eq!((&first["type"], &first["payload"]["snapshot"]), (&Value::from("workflow_status"), &Value::from(true)));
    let mut numbers = Vec::new();
    let mut ends = Vec::new();
    while ends.len() < 2 {
        let message = next(&mut socket).await.unwrap();
        numbers.extend(number(&message));
        if is_end(&message) {
            ends.push(message["payload"]["status"].clone());
            if ends.len() == 1 {
                let operator = Operator::new("tester", None);
                site.client().reopen(run, &Reopen::Failed, &operator).await.unwrap();
            }
        }
    }
    assert_eq!(ends, ["failed", "failed"]);
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
    drop(socket);
    site.deserted().await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_goes_on_after_a_reopening_on_postgres() {
    goes_on_after_a_reopening(Flavor::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_goes_on_after_a_reopening_on_sqlite() {
    goes_on_after_a_reopening(Flavor::Sqlite).await;
}
