//! `/ws/updates`: many subscriptions on one WebSocket.
//!
//! The query is the first subscription; `{"subscribe": {…}}` adds one, `{"unsubscribe": {"run": …}}` ends one. A connection
//! that breaks a rule is closed with a reason; whatever arrives, the worst that happens is that.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use futures_util::stream::{SelectAll, SplitSink};
use futures_util::{SinkExt, StreamExt};
use mainspring_core::RunId;
use mainspring_engine::LiveUpdate;
use serde::Deserialize;

use super::caps::{Caps, LiveLimits, Pace, Place};
use super::wanted::{SubscriptionQuery, Update, Updates};
use crate::auth::caller::Caller;
use crate::auth::credentials;
use crate::body::Query;
use crate::problem::Problem;
use crate::state::ApiState;

/// The protocol that a client without headers names beside its token.
const PROTOCOL: &str = "mainspring";
/// How long the closing handshake may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// Small, since there are many connections and clients send little.
const READ_BUFFER: usize = 4 * 1024;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Subscribe(SubscriptionQuery),
    Unsubscribe(Ended),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ended {
    run: RunId,
}

/// Follow what happens, on a WebSocket
#[utoipa::path(get, path = "/ws/updates", tag = "live", params(SubscriptionQuery),
    responses((status = 101, description = "Messages (`LiveMessage`)"), (status = 426, description = "Not a WebSocket")))]
pub(crate) async fn updates(
    State(state): State<ApiState>,
    caller: Caller,
    Query(wanted): Query<SubscriptionQuery>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|_| {
        let detail = "this path speaks WebSocket: connect with a WebSocket client, or use `GET /api/v1/events/stream`";
        Problem::new(StatusCode::UPGRADE_REQUIRED, detail)
    })?;
    let place = state.live().enter(&caller.identity().actor)?;
    let first = wanted.subscribe(&state, &caller).await?;
    let limits = state.live().limits();
    let upgrade = upgrade
        .protocols([PROTOCOL])
        .read_buffer_size(READ_BUFFER)
        .max_message_size(limits.message_bytes)
        .max_frame_size(limits.message_bytes)
        .on_failed_upgrade(|error| tracing::debug!(%error, "a WebSocket did not come about"));
    Ok(upgrade.on_upgrade(move |socket| async move {
        let (sink, messages) = socket.split();
        let caps = state.live().clone();
        let connection = Connection::new(sink, state, caller, headers, limits, place);
        connection.run(messages, first, caps).await;
    }))
}

/// Why a connection is closed.
struct Close(u16, String);

struct Connection {
    sink: SplitSink<WebSocket, Message>,
    state: ApiState,
    caller: Caller,
    /// The credentials, which are checked again periodically.
    headers: HeaderMap,
    limits: LiveLimits,
    pace: Pace,
    heard_at: Instant,
    updates: SelectAll<Subscription>,
    _place: Place,
}

/// A subscription with its id.
struct Subscription {
    run: Option<RunId>,
    updates: Updates,
}

impl futures_util::Stream for Subscription {
    type Item = Update;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Update>> {
        self.updates.poll_next_unpin(context)
    }
}

impl Connection {
    fn new(
        sink: SplitSink<WebSocket, Message>,
        state: ApiState,
        caller: Caller,
        headers: HeaderMap,
        limits: LiveLimits,
        place: Place,
    ) -> Self {
        let now = Instant::now();
        let pace = Pace::new(limits.messages_per_second, now);
        let updates = SelectAll::new();
        Self { sink, state, caller, headers, limits, pace, heard_at: now, updates, _place: place }
    }

    async fn run(mut self, mut messages: futures_util::stream::SplitStream<WebSocket>, first: Updates, caps: Caps) {
        self.updates.push(Subscription { run: None, updates: first });
        let begin = tokio::time::Instant::now() + self.limits.ping_every;
        let mut pings = tokio::time::interval_at(begin, self.limits.ping_every);
        pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let closing = caps.closed();
        tokio::pin!(closing);
        let close = loop {
            let outcome = tokio::select! {
                () = &mut closing => Err(Close(close_code::AWAY, "the server is closing".into())),
                message = messages.next() => match message {
                    Some(Ok(message)) => self.receive(message).await,
                    // The client is gone, or sent something that is no WebSocket frame.
                    Some(Err(error)) => Err(broken(&error)),
                    None => return,
                },
                Some(update) = self.updates.next(), if !self.updates.is_empty() => self.send_update(update).await,
                _ = pings.tick() => self.ping().await,
            };
            if let Err(close) = outcome {
                break close;
            }
        };
        tracing::debug!(actor = self.caller.identity().actor, code = close.0, reason = close.1, "closing a WebSocket");
        let frame = CloseFrame { code: close.0, reason: shortened(&close.1).into() };
        let _ = tokio::time::timeout(FAREWELL, async {
            self.sink.send(Message::Close(Some(frame))).await?;
            // Waits for the client's closing frame; otherwise the server's could be lost.
            while let Some(Ok(_)) = messages.next().await {}
            Ok::<(), axum::Error>(())
        })
        .await;
    }

    async fn send(&mut self, message: Message) -> Result<(), Close> {
        match tokio::time::timeout(self.limits.patience, self.sink.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Close(close_code::AWAY, error.to_string())),
            Err(_) => {
                Err(Close(close_code::AGAIN, "messages are not taken fast enough: follow less, or read faster".into()))
            }
        }
    }

    async fn send_update(&mut self, (run, update): Update) -> Result<(), Close> {
        match update {
            Ok(LiveUpdate::Message(message)) => self.send(Message::Text(Utf8Bytes::from(&*message.text))).await,
            Ok(LiveUpdate::Over(why)) => {
                let said = serde_json::json!({"type": "resync", "payload": {"reason": why}, "run": run, "seq": null});
                self.send(Message::Text(said.to_string().into())).await
            }
            Err(error) => {
                tracing::debug!(%error, "following");
                Err(Close(
                    close_code::AGAIN,
                    "the database is away: connect again and resume from the last number".into(),
                ))
            }
        }
    }

    async fn receive(&mut self, message: Message) -> Result<(), Close> {
        let now = Instant::now();
        self.heard_at = now;
        if !self.pace.allows(now) {
            let detail = format!("more than {} messages per second", self.limits.messages_per_second);
            return Err(Close(close_code::POLICY, detail));
        }
        match message {
            Message::Text(text) => self.order(&text).await,
            Message::Binary(_) => Err(Close(close_code::UNSUPPORTED, "messages are text with JSON in it".into())),
            // The library answers pings.
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Close(_) => Err(Close(close_code::NORMAL, "goodbye".into())),
        }
    }

    async fn order(&mut self, text: &str) -> Result<(), Close> {
        let order: Order = serde_json::from_str(text).map_err(|error| {
            let detail = format!(
                "not understood: {error}; send {{\"subscribe\": {{…}}}} or {{\"unsubscribe\": {{\"run\": …}}}}"
            );
            Close(close_code::POLICY, detail)
        })?;
        match order {
            Order::Subscribe(wanted) => {
                if self.updates.len() >= self.limits.subscriptions {
                    let detail = format!("more than {} subscriptions on one connection", self.limits.subscriptions);
                    return Err(Close(close_code::POLICY, detail));
                }
                let updates = wanted.subscribe(&self.state, &self.caller).await.map_err(|problem| {
                    Close(close_code::POLICY, format!("{}: {}", problem.status().as_u16(), problem.detail()))
                })?;
                self.updates.push(Subscription { run: wanted.run, updates });
            }
            Order::Unsubscribe(Ended { run }) => {
                let all = std::mem::take(&mut self.updates);
                self.updates = all.into_iter().filter(|subscription| subscription.run != Some(run)).collect();
            }
        }
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), Close> {
        if self.heard_at.elapsed() > self.limits.idle {
            let detail = format!("nothing was heard for {} s", self.limits.idle.as_secs());
            return Err(Close(close_code::AWAY, detail));
        }
        if !is_still_authorised(&self.state, &self.caller, &self.headers).await {
            return Err(Close(close_code::POLICY, "the token is not valid any more, or permits something else".into()));
        }
        self.send(Message::Ping(Vec::new().into())).await
    }
}

/// Whether the credentials are still valid. An unreachable database is no reason to disconnect.
pub(super) async fn is_still_authorised(state: &ApiState, caller: &Caller, headers: &HeaderMap) -> bool {
    match credentials::identify(state, &Method::GET, headers).await {
        Ok(Some(identity)) => identity == *caller.identity(),
        // A local request carries no token.
        Ok(None) => true,
        Err(problem) => problem.status() != StatusCode::UNAUTHORIZED,
    }
}

fn broken(error: &axum::Error) -> Close {
    let text = error.to_string();
    let code =
        if text.contains("too long") || text.contains("Space limit") { close_code::SIZE } else { close_code::PROTOCOL };
    Close(code, text)
}

/// Cuts a reason to the limit of 123 bytes.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(120);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
