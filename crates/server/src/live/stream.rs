//! `/events/stream`: the same as server-sent events, for clients that only read.
//!
//! The id of an event is its number within the run, so a browser that connects again resumes by itself.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, StreamExt};
use mainspring_engine::LiveUpdate;
use tokio::sync::mpsc;

use super::caps::Place;
use super::socket::is_still_authorised;
use super::wanted::{SubscriptionQuery, Update, Updates};
use crate::auth::caller::Caller;
use crate::body::Query;
use crate::problem::Problem;
use crate::state::ApiState;

const LAST_EVENT: &str = "last-event-id";
/// Sends a comment, so that a dead connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) type Events = Sse<axum::response::sse::KeepAliveStream<EventStream>>;
type EventStream = futures_util::stream::BoxStream<'static, Result<Event, Infallible>>;

/// Follow what happens, as server-sent events
#[utoipa::path(get, path = "/events/stream", tag = "live", params(SubscriptionQuery),
    responses((status = 200, description = "Events whose data is a `LiveMessage`", content_type = "text/event-stream", body = String)))]
pub(crate) async fn events(
    State(state): State<ApiState>,
    caller: Caller,
    Query(mut wanted): Query<SubscriptionQuery>,
    headers: HeaderMap,
) -> Result<Events, Problem> {
    if wanted.run.is_some()
        && let Some(last) = headers.get(LAST_EVENT)
    {
        let number = last.to_str().ok().and_then(|text| text.trim().parse::<i64>().ok());
        // The client's position takes precedence over the one it began with.
        wanted.seq = Some(number.ok_or_else(|| {
            Problem::malformed(
                "`Last-Event-ID` is the number of the last event that was seen: leave it out to begin at `seq`",
            )
        })?);
    }
    let place = state.live().enter(&caller.identity().actor)?;
    let updates = wanted.subscribe(&state, &caller).await?;
    Ok(served(pumped(state, caller, headers, updates, place)))
}

pub(super) fn served(events: impl Stream<Item = Event> + Send + 'static) -> Events {
    let events: EventStream = events.map(Ok).boxed();
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// Moves updates into the answer, in a task of its own. If a client does not read, the answer is cut and nothing is
/// buffered for it.
fn pumped(
    state: ApiState,
    caller: Caller,
    headers: HeaderMap,
    mut updates: Updates,
    place: Place,
) -> impl Stream<Item = Event> + Send + 'static {
    let (sender, receiver) = mpsc::channel(1);
    let limits = state.live().limits();
    tokio::spawn(async move {
        let _place = place;
        let caps = state.live().clone();
        let closing = caps.closed();
        tokio::pin!(closing);
        let begin = tokio::time::Instant::now() + limits.ping_every;
        let mut looks = tokio::time::interval_at(begin, limits.ping_every);
        loop {
            let update = tokio::select! {
                () = &mut closing => return,
                () = sender.closed() => return,
                _ = looks.tick() => match is_still_authorised(&state, &caller, &headers).await {
                    true => continue,
                    false => return,
                },
                update = updates.next() => update,
            };
            let Some(event) = update.and_then(event) else { return };
            match tokio::time::timeout(limits.patience, sender.send(event)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => {
                    tracing::debug!(actor = caller.identity().actor, "events are not taken fast enough: giving up");
                    return;
                }
            }
        }
    });
    received(receiver)
}

pub(super) fn received(receiver: mpsc::Receiver<Event>) -> impl Stream<Item = Event> + Send + 'static {
    futures_util::stream::unfold(receiver, |mut receiver| async move {
        let event = receiver.recv().await?;
        Some((event, receiver))
    })
}

fn event((_, update): Update) -> Option<Event> {
    let Ok(LiveUpdate::Message(message)) = update else { return None };
    let event = Event::default().event(message.kind.word()).data(&*message.text);
    Some(match message.seq {
        Some(seq) => event.id(seq.to_string()),
        None => event,
    })
}
