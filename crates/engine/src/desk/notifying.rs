//! Sends messages from the outbox: the first one at once, those within the next minute together as a digest. A target
//! that does not answer is retried later, and never delays a run or another target.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_core::signature::signature;
use mainspring_core::workflow::{Channel, Notification};
use mainspring_store::{NotificationRow, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::notices::backoff;
use crate::client::Client;
use crate::duties::periodic_scan::PeriodicScan;
use crate::node::Shared;

const PAUSE: Duration = Duration::from_secs(1);
/// Messages to a target within this time of the last one are sent as a digest.
const DIGEST_AFTER: i64 = 60_000_000;
const WARNINGS_EVERY: Duration = Duration::from_secs(30);
/// A node that has just started has more urgent work.
const FIRST_WARNINGS_AFTER: Duration = Duration::from_secs(5);
const FORGET_EVERY: Duration = Duration::from_secs(3_600);
const RETENTION: i64 = 30 * 24 * 3_600_000_000;
const MESSAGES_AT_ONCE: i64 = 1_000;
const SHOWN_IN_DIGEST: usize = 20;
/// A target that takes longer than this counts as failed.
const PATIENCE: Duration = Duration::from_secs(15);

/// A message that leaves the system.
#[derive(Debug, Clone)]
pub enum Message {
    Post { url: String, headers: Vec<(String, String)>, body: String },
    Email { to: Vec<String>, subject: String, body: String, id: String },
}

pub type MessengerFuture<'m> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'm>>;

/// Sends messages. The binary implements it with the worker crate's HTTP client and mail server.
pub trait Messenger: std::fmt::Debug + Send + Sync + 'static {
    fn send(&self, message: Message) -> MessengerFuture<'_>;
}

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut leading = shared.term.subscribe();
    let mut warnings = PeriodicScan::new(WARNINGS_EVERY, FIRST_WARNINGS_AFTER, Instant::now());
    let mut forgot: Option<Instant> = None;
    while !shared.stop.is_cancelled() {
        if leading.borrow_and_update().is_none() {
            let _ = shared.stop.run_until_cancelled(leading.changed()).await;
            continue;
        }
        if let Err(error) = tick(&shared, &mut warnings, &mut forgot).await {
            tracing::warn!(%error, "sending notifications");
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = leading.changed() => {}
            () = shared.stop.cancelled() => {}
        }
    }
}

async fn tick(shared: &Shared, warnings: &mut PeriodicScan, forgot: &mut Option<Instant>) -> Result<()> {
    let client = &shared.client;
    while !shared.stop.is_cancelled() && client.notice_failed_runs().await? {}
    let began = Instant::now();
    if warnings.is_due(began) {
        let noticed = client.notice_warnings().await;
        warnings.scanned(began, Instant::now());
        noticed?;
    }
    if forgot.is_none_or(|at| at.elapsed() >= FORGET_EVERY) {
        *forgot = Some(Instant::now());
        client.store.forget_notifications(client.now() - RETENTION).await?;
    }
    match &shared.config.messenger {
        Some(messenger) => client.send_notifications(messenger).await,
        None => Ok(()),
    }
}

impl Client {
    /// Sends the due messages, to all targets concurrently.
    async fn send_notifications(&self, messenger: &Arc<dyn Messenger>) -> Result<()> {
        let mut targets: BTreeMap<String, Vec<NotificationRow>> = BTreeMap::new();
        for row in self.store.due_notifications(self.now(), MESSAGES_AT_ONCE).await? {
            targets.entry(row.target_key.clone()).or_default().push(row);
        }
        let mut sending = JoinSet::new();
        for (key, rows) in targets {
            let (client, messenger) = (self.clone(), Arc::clone(messenger));
            sending.spawn(async move { client.send_to_target(&key, &rows, messenger.as_ref()).await });
        }
        while let Some(done) = sending.join_next().await {
            if let Ok(Err(error)) = done {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn send_to_target(&self, key: &str, rows: &[NotificationRow], messenger: &dyn Messenger) -> Result<()> {
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let now = self.now();
        if let Some(last) = self.store.last_told(key).await?
            && now - last < DIGEST_AFTER
        {
            return self.store.put_notifications_off(&ids, Some(last + DIGEST_AFTER), None).await;
        }
        let sent = match self.message(rows).await? {
            Err(cause) => Err(cause),
            Ok(message) => match tokio::time::timeout(PATIENCE, messenger.send(message)).await {
                Ok(sent) => sent,
                Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            },
        };
        match sent {
            Ok(()) => self.store.notifications_sent(self.now(), &ids).await,
            Err(cause) => {
                let attempts = rows.iter().map(|row| row.attempts).max().unwrap_or(0);
                let until = backoff(attempts).map(|wait| self.now() + wait);
                tracing::warn!(
                    namespace = rows[0].namespace,
                    workflow = rows[0].workflow,
                    messages = rows.len(),
                    attempt = attempts + 1,
                    given_up = until.is_none(),
                    error = cause,
                    "a notification could not be sent"
                );
                self.store.put_notifications_off(&ids, until, Some(&cause)).await
            }
        }
    }

    /// One message, or a digest of several, in the format of the target.
    async fn message(&self, rows: &[NotificationRow]) -> Result<Result<Message, String>> {
        let target: Notification = match serde_json::from_str(&rows[0].target) {
            Ok(target) => target,
            Err(error) => return Ok(Err(format!("the target is not readable: {error}"))),
        };
        let body = match rows {
            [one] => serde_json::from_str(&one.body).unwrap_or(Value::Null),
            several => digest(several),
        };
        Ok(Ok(match target.channel {
            Channel::Slack { url } => {
                Message::Post { url, headers: Vec::new(), body: json!({"text": text(&body)}).to_string() }
            }
            Channel::Email { to } => Message::Email {
                to,
                subject: text(&body).lines().next().unwrap_or_default().to_owned(),
                body: format!("{}\n\n{}\n", text(&body), serde_json::to_string_pretty(&body).unwrap_or_default()),
                id: format!("<{}@mainspring>", rows[0].id),
            },
            Channel::Webhook { url, secret } => {
                let body = body.to_string();
                let mut headers = vec![("X-Mainspring-Delivery".to_owned(), rows[0].id.to_string())];
                if let Some(name) = secret {
                    let Some(value) = self.secret(&rows[0].namespace, &name).await? else {
                        return Ok(Err(format!("secret `{name}` does not exist: `mainspring secrets set {name}`")));
                    };
                    headers.push(("X-Mainspring-Signature".to_owned(), signature(&value, body.as_bytes())));
                }
                Message::Post { url, headers, body }
            }
        }))
    }
}

fn digest(rows: &[NotificationRow]) -> Value {
    let shown: Vec<Value> =
        rows.iter().take(SHOWN_IN_DIGEST).filter_map(|row| serde_json::from_str(&row.body).ok()).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(format!("{} of {}", row.notice.word(), row.workflow)).or_default() += 1;
    }
    json!({"event": "digest", "namespace": rows[0].namespace, "count": rows.len(), "counts": counts, "events": shown})
}

/// The text for a person.
fn text(body: &Value) -> String {
    let of = |key: &str| body[key].as_str().unwrap_or_default();
    if of("event") == "digest" {
        let counts = body["counts"].as_object().map_or_else(String::new, |counts| {
            counts.iter().map(|(what, count)| format!("{count} × {what}")).collect::<Vec<_>>().join(", ")
        });
        return format!("{} events in {}: {counts}", body["count"], of("namespace"));
    }
    let task = if of("task").is_empty() { String::new() } else { format!(" task {}", of("task")) };
    let message = if of("message").is_empty() { String::new() } else { format!(": {}", of("message")) };
    format!(
        "{} {}/{}{task}{message} (run {})",
        of("event").replace('_', " "),
        of("namespace"),
        of("workflow"),
        of("run_id")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_what_it_is_about() {
        let body = json!({"event": "dead_letter", "namespace": "sales", "workflow": "etl", "task": "load", "message": "exit code 1", "run_id": "r"});
        assert_eq!(text(&body), "dead letter sales/etl task load: exit code 1 (run r)");
        let body = json!({"event": "digest", "namespace": "sales", "count": 3, "counts": {"run_failed of etl": 3}});
        assert_eq!(text(&body), "3 events in sales: 3 × run_failed of etl");
    }
}
