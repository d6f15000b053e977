//! Redis as any program outside sees it, and what must hold of the events that came by it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, bail};
use sqlx::{Connection, PgConnection};

use crate::invariants::Violation;

const PATIENCE: Duration = Duration::from_secs(10);
const EVENTS: &str = "stream:scheduler:events.in";
const EVENTS_GROUP: &str = "scheduler-events";
const REJECTED: &str = "stream:scheduler:events.in.rejected";

/// A reply: a text (numbers, too), or a list of replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisReply {
    Text(String),
    List(Vec<RedisReply>),
}

impl RedisReply {
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            Self::Text(_) => &[],
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::List(_) => "",
        }
    }

    /// Every text in it, in order.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::List(items) => items.iter().flat_map(Self::texts).collect(),
        }
    }
}

/// Asks the Redis at this address.
pub fn ask(address: &str, arguments: &[&str]) -> anyhow::Result<RedisReply> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("connecting to Redis at {address}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut command = format!("*{}\r\n", arguments.len());
    for argument in arguments {
        command.push_str(&format!("${}\r\n{argument}\r\n", argument.len()));
    }
    stream.write_all(command.as_bytes())?;
    read(&mut BufReader::new(stream)).with_context(|| format!("asking Redis {arguments:?}"))
}

fn read(stream: &mut impl BufRead) -> anyhow::Result<RedisReply> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line.trim_end();
    let Some((kind, rest)) = line.split_at_checked(1) else { bail!("Redis hung up") };
    Ok(match kind {
        "-" => bail!("{rest}"),
        "$" if rest != "-1" => {
            let mut bytes = vec![0; rest.parse::<usize>()? + 2];
            stream.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            RedisReply::Text(String::from_utf8_lossy(&bytes).into_owned())
        }
        "*" => {
            let count: i64 = rest.parse()?;
            RedisReply::List((0..count.max(0)).map(|_| read(stream)).collect::<anyhow::Result<_>>()?)
        }
        _ => RedisReply::Text(rest.to_owned()),
    })
}

/// Entries of a stream with their fields.
fn entries(address: &str, stream: &str, last: &str) -> anyhow::Result<Vec<(String, BTreeMap<String, String>)>> {
    let reply = ask(address, &["XRANGE", stream, "-", last])?;
    let entry = |entry: &RedisReply| {
        let [id, fields] = entry.list() else { return None };
        let fields = fields.texts();
        Some((id.text().to_owned(), fields.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()))
    };
    Ok(reply.list().iter().filter_map(entry).collect())
}

/// The last entry of the stream of events that was given to a node; none if no node has asked yet.
pub fn last_event_read(address: &str) -> anyhow::Result<Option<String>> {
    let Ok(groups) = ask(address, &["XINFO", "GROUPS", EVENTS]) else { return Ok(None) };
    let texts = groups.texts();
    let at = texts.iter().position(|text| text == "last-delivered-id");
    Ok(at.and_then(|at| texts.get(at + 1)).cloned())
}

/// Events that were given to a node and not acknowledged by it.
pub fn events_pending(address: &str) -> anyhow::Result<Vec<String>> {
    let pending = ask(address, &["XPENDING", EVENTS, EVENTS_GROUP, "-", "+", "100000"])?;
    Ok(pending.list().iter().filter_map(|entry| entry.list().first()).map(|id| id.text().to_owned()).collect())
}

/// An entry of the stream of events that was acknowledged is an event of the database, or was rejected. Only for a Redis that
/// was not flushed meanwhile.
pub async fn check_events(address: &str, url: &str) -> anyhow::Result<Vec<Violation>> {
    let Some(last) = last_event_read(address)? else { return Ok(Vec::new()) };
    let pending: BTreeSet<String> = events_pending(address)?.into_iter().collect();
    let rejected = entries(address, REJECTED, "+")?;
    let rejected: BTreeSet<String> =
        rejected.into_iter().filter_map(|(_, fields)| fields.get("entry").cloned()).collect();
    let mut connection = PgConnection::connect(url).await.with_context(|| format!("connecting to {url}"))?;
    let sources: Vec<(String,)> =
        sqlx::query_as("SELECT source FROM events WHERE source LIKE 'redis %'").fetch_all(&mut connection).await?;
    connection.close().await?;
    let stored: BTreeSet<&str> = sources.iter().filter_map(|(source,)| source.strip_prefix("redis ")).collect();
    let read = entries(address, EVENTS, &last)?;
    // The same id of a sender again is the same event: one of its entries is stored.
    let sender =
        |fields: &BTreeMap<String, String>| Some((fields.get("namespace").cloned(), fields.get("id")?.clone()));
    let senders: BTreeSet<_> =
        read.iter().filter(|(id, _)| stored.contains(id.as_str())).filter_map(|(_, fields)| sender(fields)).collect();
    let is_lost = |(id, fields): &&(String, BTreeMap<String, String>)| {
        !pending.contains(id)
            && !rejected.contains(id)
            && !stored.contains(id.as_str())
            && !sender(fields).is_some_and(|sender| senders.contains(&sender))
    };
    let violation = |(id, fields): &(String, BTreeMap<String, String>)| Violation {
        invariant: "an event that was acknowledged is stored",
        subject: format!("{id} {fields:?}"),
    };
    Ok(read.iter().filter(is_lost).map(violation).collect())
}
