//! The API as commands call it: in this process when the database is at hand, else over HTTP.
//!
//! A command is then a few lines: [`Connection::open`], [`Connection::get`] or [`Connection::send`], and printing. Both
//! ways go through the same router, so they answer alike; only who asks differs.

mod answer;
mod http;
mod profile;
mod stream;

use mainspring_core::workflow::DEFAULT_NAMESPACE;
use mainspring_server::{Api, LocalRequest};
use serde_json::Value;
use url::form_urlencoded;

use crate::app::App;
use crate::database;
use crate::failure::{Failure, Result};
pub(crate) use http::Endpoint;
pub(crate) use profile::Profile;

const BASE: &str = "/api/v1";

/// A way to the API.
pub(crate) struct Connection {
    way: Way,
    namespace: Option<String>,
}

enum Way {
    Here { api: Box<Api>, user: String },
    There(Endpoint),
}

impl Connection {
    /// `--server`, or a profile, or MAINSPRING_SERVER lead over HTTP; otherwise it is the database of the configuration.
    pub(crate) async fn open(app: &App<'_>) -> Result<Self> {
        let profile = Profile::load(app.profile.as_deref())?;
        let namespace = app.namespace.clone().or_else(|| profile.namespace.clone());
        if let Some(endpoint) = Endpoint::choose(app, &profile)? {
            return Ok(Self { way: Way::There(endpoint), namespace });
        }
        app.ensure_secrets_key()?;
        let client = app.client(database::connect(&app.config).await?);
        database::prepare(client.store(), client.now(), false).await?;
        let api = Api::new(client, app.api_settings()).map_err(Failure::bad_input)?;
        let user = app.operator(None, None).by;
        Ok(Self { way: Way::Here { api: Box::new(api), user }, namespace })
    }

    /// The namespace that was asked for, if any.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Where the answers come from: the address of a server, or the database.
    pub(crate) fn place(&self) -> String {
        match &self.way {
            Way::There(endpoint) => endpoint.place(),
            Way::Here { .. } => "the database".to_owned(),
        }
    }

    pub(crate) fn namespace_or_default(&self) -> &str {
        self.namespace().unwrap_or(DEFAULT_NAMESPACE)
    }

    /// Reads; what was refused or does not exist is a failure with the words of the API.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, Option<&str>)]) -> Result<Value> {
        self.send("GET", path, query, None).await
    }

    /// Sends; an empty answer is null.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &[&str],
        query: &[(&str, Option<&str>)],
        body: Option<&Value>,
    ) -> Result<Value> {
        let target = target(path, query);
        let body = body.map(|body| body.to_string().into_bytes());
        let (status, bytes) = match &self.way {
            Way::There(endpoint) => endpoint.ask(method, &target, body).await?,
            Way::Here { api, user } => {
                let mut headers = Vec::new();
                if body.is_some() {
                    headers.push(("content-type", "application/json".to_owned()));
                }
                let request = LocalRequest {
                    user: user.clone(),
                    method: method.to_owned(),
                    target,
                    headers,
                    body: body.unwrap_or_default(),
                };
                let answer = api.ask(request).await;
                (answer.status, answer.body)
            }
        };
        answer::read(status, &bytes)
    }
}

/// The target of a request. Segments and values are data: nothing in them is taken for a separator.
fn target(path: &[&str], query: &[(&str, Option<&str>)]) -> String {
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
