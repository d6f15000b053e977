//! The API as commands call it: in this process when the database is at hand, else over HTTP.
//!
//! A command is then a few lines: [`Connection::open`], [`Connection::get`] or [`Connection::send`], and printing. Both
//! ways go through the same router, so they answer alike; only who asks differs.

mod answer;
mod endpoints;
mod events;
mod http;
mod profile;

use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_engine::Client;
use mainspring_server::{Api, LocalRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::form_urlencoded;

use crate::app::App;
use crate::database;
use crate::failure::{Failure, Result, cause};
pub(crate) use answer::{Answer, TokenSource, items, strange};
pub(crate) use endpoints::Endpoints;
pub(crate) use events::Events;
pub(crate) use http::Endpoint;
pub(crate) use profile::Profile;

const BASE: &str = "/api/v1";
/// The longest page of a list.
pub(crate) const PAGE: &str = "500";
const JSON: &str = "application/json";

/// A connection to the API.
pub(crate) struct Connection {
    transport: Transport,
    namespace: Option<String>,
}

enum Transport {
    InProcess { api: Box<Api>, client: Box<Client>, user: String },
    Http(Endpoint),
}

/// Parameters of a query; those without a value are left out.
pub(crate) type Query<'q> = &'q [(&'q str, Option<&'q str>)];

/// What is sent along: its media type and its bytes.
pub(crate) struct Content {
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl Connection {
    /// `--server`, or a profile, or MAINSPRING_SERVER lead over HTTP; otherwise it is the database of the configuration,
    /// which is prepared if it is empty.
    pub(crate) async fn open(app: &App<'_>) -> Result<Self> {
        if let Some(there) = Self::there(app)? {
            return Ok(there);
        }
        app.ensure_secrets_key()?;
        let client = app.client(database::connect(&app.config).await?)?;
        database::prepare(client.store(), client.now(), false).await?;
        Self::here(app, client)
    }

    /// Opens the API for a command that needs an existing database: none is created.
    pub(crate) async fn open_existing(app: &App<'_>) -> Result<Self> {
        if let Some(there) = Self::there(app)? {
            return Ok(there);
        }
        let client = app.client(database::open(&app.config).await?)?;
        Self::here(app, client)
    }

    /// Opens the API; `None` where there is no database yet.
    pub(crate) async fn open_if_there(app: &App<'_>) -> Result<Option<Self>> {
        if let Some(there) = Self::there(app)? {
            return Ok(Some(there));
        }
        if database::sqlite_file(&app.config.database).is_some_and(|file| !file.exists()) {
            return Ok(None);
        }
        Self::open_existing(app).await.map(Some)
    }

    fn there(app: &App<'_>) -> Result<Option<Self>> {
        let profile = Profile::load(app.profile.as_deref())?;
        let namespace = app.namespace.clone().or_else(|| profile.namespace.clone());
        Ok(Endpoint::choose(app, &profile)?.map(|endpoint| Self { transport: Transport::Http(endpoint), namespace }))
    }

    fn here(app: &App<'_>, client: Client) -> Result<Self> {
        let namespace = match &app.namespace {
            Some(namespace) => Some(namespace.clone()),
            None => Profile::load(app.profile.as_deref())?.namespace,
        };
        let api = Api::new(client.clone(), app.api_settings()).map_err(Failure::bad_input)?;
        let user = app.operator(None, None).by;
        Ok(Self { transport: Transport::InProcess { api: Box::new(api), client: Box::new(client), user }, namespace })
    }

    /// Acts under another name. A server knows the caller by the token, and receives the name in addition.
    pub(crate) fn acting_as(mut self, by: Option<&str>) -> Self {
        if let (Transport::InProcess { user, .. }, Some(by)) = (&mut self.transport, by) {
            by.clone_into(user);
        }
        self
    }

    /// What works on the database, if that is at hand.
    pub(crate) fn client(&self) -> Option<&Client> {
        match &self.transport {
            Transport::InProcess { client, .. } => Some(client),
            Transport::Http(_) => None,
        }
    }

    /// The namespace that was asked for, if any.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Where the answers come from: the address of a server, or the database.
    pub(crate) fn place(&self) -> String {
        match &self.transport {
            Transport::Http(endpoint) => endpoint.place(),
            Transport::InProcess { .. } => "the database".to_owned(),
        }
    }

    pub(crate) fn namespace_or_default(&self) -> &str {
        self.namespace().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Reads into a type of the API; what was refused or does not exist is a failure with the words of the API.
    pub(crate) async fn read<T: DeserializeOwned>(&self, path: &[&str], query: Query<'_>) -> Result<T> {
        self.ask("GET", path, query, None, &[]).await?.read()
    }

    /// Sends a type of the API and reads another.
    pub(crate) async fn write<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &[&str],
        query: Query<'_>,
        body: &impl Serialize,
    ) -> Result<T> {
        let bytes = serde_json::to_vec(body).map_err(|error| Failure::failed(error.to_string()))?;
        self.ask(method, path, query, Some(Content { kind: JSON, bytes }), &[]).await?.read()
    }

    /// Reads; what was refused or does not exist is a failure with the words of the API.
    pub(crate) async fn get(&self, path: &[&str], query: Query<'_>) -> Result<Value> {
        self.send("GET", path, query, None).await
    }

    /// Reads a list to its end.
    pub(crate) async fn all(&self, path: &[&str], query: Query<'_>) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let query = [query, &[("limit", Some(PAGE)), ("cursor", cursor.as_deref())]].concat();
            let mut page = self.get(path, &query).await?;
            if let Some(items) = page["items"].as_array_mut() {
                all.append(items);
            }
            match page["next"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(all),
            }
        }
    }

    /// Sends; an empty answer is null.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &[&str],
        query: Query<'_>,
        body: Option<&Value>,
    ) -> Result<Value> {
        let content = body.map(|body| Content { kind: JSON, bytes: body.to_string().into_bytes() });
        self.ask(method, path, query, content, &[]).await?.value()
    }

    /// Asks anything; the answer is the caller's to judge.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &[&str],
        query: Query<'_>,
        content: Option<Content>,
        conditions: &[(&'static str, &str)],
    ) -> Result<Answer> {
        let target = target(path, query);
        let mut headers: Vec<(&'static str, String)> =
            conditions.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let body = content.map_or_else(Vec::new, |content| {
            headers.push(("content-type", content.kind.to_owned()));
            content.bytes
        });
        match &self.transport {
            Transport::Http(endpoint) => endpoint.ask(method, &target, &headers, body).await,
            Transport::InProcess { api, user, .. } => {
                let request = LocalRequest { user: user.clone(), method: method.to_owned(), target, headers, body };
                let answer = api.ask(request).await;
                Ok(Answer { status: answer.status, etag: answer.etag, bytes: answer.body, token: TokenSource::Local })
            }
        }
    }

    /// Writes a file as it comes.
    pub(crate) async fn download(&self, path: &[&str], query: Query<'_>, sink: &mut dyn std::io::Write) -> Result<()> {
        if let Transport::Http(endpoint) = &self.transport {
            return endpoint.download(&target(path, query), sink).await;
        }
        let content = self.ask("GET", path, query, None, &[]).await?.content()?;
        sink.write_all(&content).map_err(|error| Failure::failed(format!("cannot write it: {}", cause(&error))))
    }

    /// The live events of a server. `None` with direct access to the database, which is polled instead.
    pub(crate) async fn events(&self, path: &[&str], query: Query<'_>) -> Result<Option<Events>> {
        match &self.transport {
            Transport::Http(endpoint) => endpoint.follow(&target(path, query)).await.map(Some),
            Transport::InProcess { .. } => Ok(None),
        }
    }
}

/// The target of a request. Segments and values are data: nothing in them is taken for a separator.
fn target(path: &[&str], query: Query<'_>) -> String {
    let mut target = BASE.to_owned();
    for segment in path {
        target.push('/');
        // `+` for a blank is right in a query only.
        target.push_str(&form_urlencoded::byte_serialize(segment.as_bytes()).collect::<String>().replace('+', "%20"));
    }
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    for (name, value) in query {
        if let Some(value) = value {
            pairs.append_pair(name, value);
        }
    }
    let query = pairs.finish();
    if !query.is_empty() {
        target.push('?');
        target.push_str(&query);
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_values_are_data() {
        assert_eq!(target(&["pools"], &[]), "/api/v1/pools");
        assert_eq!(target(&["pools", "a/../b?c d"], &[]), "/api/v1/pools/a%2F..%2Fb%3Fc%20d");
        assert_eq!(target(&["x"], &[("n", Some("a&b=c")), ("m", None)]), "/api/v1/x?n=a%26b%3Dc");
    }
}
