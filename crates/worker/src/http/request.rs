//! From an order to a request, refusing what would not arrive as it was meant.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use mainspring_core::work::{Failure, HttpOrder};
use mainspring_core::workflow::{HttpAuth, HttpBody};
use url::{Origin, Url};

use crate::function::FunctionCall;
use crate::text::first_characters;

const USER_AGENT: &str = concat!("mainspring/", env!("CARGO_PKG_VERSION"));

/// These headers frame the message or name its receiver, so only the connection sets them.
const OURS: [HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
];

/// Headers that may follow a redirect to another origin. Any other header may hold a credential.
const HARMLESS: [HeaderName; 6] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::CONTENT_TYPE,
    header::USER_AGENT,
    HeaderName::from_static("idempotency-key"),
];

/// One request, complete but for the headers of the connection.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn new(method: &str, url: &str) -> Result<Self, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(Self { method: read_method(method)?, url: read_url(url)?, headers, body: Bytes::new() })
    }

    pub(super) fn of(order: &HttpOrder) -> Result<Self, Failure> {
        let mut request = Self::new(&order.method, &order.url)?;
        if !order.query.is_empty() {
            request.url.query_pairs_mut().extend_pairs(&order.query);
        }
        match &order.body {
            None => {}
            Some(HttpBody::Json(value)) => request.set_body("application/json", value.to_string()),
            Some(HttpBody::Text(text)) => request.set_body("text/plain; charset=utf-8", text.clone()),
            Some(HttpBody::Form(fields)) => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(fields);
                request.set_body("application/x-www-form-urlencoded", form.finish());
            }
        }
        for (name, value) in &order.headers {
            request.set(name, value)?;
        }
        match &order.auth {
            None => {}
            Some(HttpAuth::Bearer(token)) => request.authorise(&format!("Bearer {token}"))?,
            Some(HttpAuth::Basic { username, .. }) if username.contains(':') => {
                return Err(refused("the user name of `auth.basic` holds a colon, which would end it".into()));
            }
            Some(HttpAuth::Basic { username, password }) => {
                let pair = BASE64_STANDARD.encode(format!("{username}:{password}"));
                request.authorise(&format!("Basic {pair}"))?;
            }
        }
        Ok(request)
    }

    pub(crate) fn set_body(&mut self, kind: &'static str, body: String) {
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        self.body = body.into();
    }

    /// Sets a header that the author wrote.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let shown = first_characters(name, 80).escape_debug().to_string();
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            return Err(refused(format!("`{shown}` cannot be the name of a header; letters, digits and - are safe")));
        };
        if OURS.contains(&name) || name.as_str().starts_with("proxy-") {
            return Err(refused(format!("the header `{shown}` cannot be set: the connection decides it; remove it")));
        }
        self.headers.insert(name, read_value(&shown, value)?);
        Ok(())
    }

    fn authorise(&mut self, value: &str) -> Result<(), Failure> {
        let mut value = read_value("authorization", value)?;
        value.set_sensitive(true);
        self.headers.insert(header::AUTHORIZATION, value);
        Ok(())
    }

    /// What to ask next after a redirect, as browsers and curl do it. Another origin gets no credentials.
    pub(super) fn redirected(self, status: StatusCode, location: &str) -> Result<Self, Failure> {
        let Self { mut method, url, mut headers, mut body } = self;
        let next = url.join(location).map_err(|error| {
            let shown = first_characters(location, 200).escape_debug();
            Failure {
                kind: "redirect".into(),
                message: format!("the server redirects to `{shown}`, which is not a URL: {error}"),
                ..Failure::default()
            }
        })?;
        let next = check_url(next)?;
        let becomes_get = match status {
            StatusCode::SEE_OTHER => method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => method == Method::POST,
            _ => false,
        };
        if becomes_get {
            method = Method::GET;
            body = Bytes::new();
            headers.remove(header::CONTENT_TYPE);
        }
        if !same_origin(&url.origin(), &next.origin()) {
            if !body.is_empty() {
                // A body may hold as many secrets as a header, and the author did not ask to send it there.
                let shown = first_characters(&next.origin().ascii_serialization(), 200).escape_debug().to_string();
                return Err(Failure {
                    kind: "redirect".into(),
                    message: format!("the server redirects to {shown}, which is not sent the body: call it directly"),
                    ..Failure::default()
                });
            }
            let names: Vec<HeaderName> = headers.keys().filter(|name| !is_harmless(name)).cloned().collect();
            for name in names {
                headers.remove(name);
            }
        }
        Ok(Self { method, url: next, headers, body })
    }

    /// The address as it may be shown: queries hold tokens too often.
    pub(crate) fn shown_url(&self) -> String {
        let mut url = self.url.clone();
        let queried = url.query().is_some();
        url.set_query(None);
        let shown = first_characters(url.as_str(), 500);
        if queried { format!("{shown}?…") } else { shown.to_owned() }
    }
}

/// The same identity that scripts find in their environment. An idempotency key of the author's own wins.
pub(crate) fn identify(request: &mut Request, call: &FunctionCall) {
    let mut own = |name: &'static str, text: String| {
        if let Ok(value) = HeaderValue::from_str(&text) {
            request.headers.insert(HeaderName::from_static(name), value);
        }
    };
    own("mainspring-run-id", call.key.run.to_string());
    own("mainspring-task-id", call.key.to_string());
    own("mainspring-attempt", call.attempt.to_string());
    own("mainspring-fencing-token", format!("{}.{}", call.session, call.attempt));
    if let Ok(value) = HeaderValue::from_str(&call.idempotency_key()) {
        request.headers.entry("idempotency-key").or_insert(value);
    }
    if let Some(trace) = call.trace
        && let Ok(value) = HeaderValue::from_str(&trace.to_string())
    {
        request.headers.entry("traceparent").or_insert(value);
    }
}

fn is_harmless(name: &HeaderName) -> bool {
    HARMLESS.contains(name) || name.as_str().starts_with("mainspring-")
}

fn same_origin(left: &Origin, right: &Origin) -> bool {
    left.is_tuple() && left == right
}

fn read_method(text: &str) -> Result<Method, Failure> {
    let shown = || first_characters(text, 40).escape_debug().to_string();
    match Method::from_bytes(text.as_bytes()) {
        Ok(Method::CONNECT | Method::TRACE) => Err(refused(format!("the method {} is not for tasks", shown()))),
        Ok(method) if text.len() <= 32 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') => {
            Ok(method)
        }
        _ => {
            Err(refused(format!("`{}` is not a method; write GET, POST, PUT, PATCH, DELETE, HEAD or OPTIONS", shown())))
        }
    }
}

fn read_url(text: &str) -> Result<Url, Failure> {
    let shown = || first_characters(text, 200).escape_debug().to_string();
    // The parser drops these in silence; the value that remains is not what the author meant.
    if let Some(odd) = text.chars().find(|character| character.is_control() || *character == ' ' || *character == '\\')
    {
        return Err(refused(format!(
            "the URL `{}` holds {odd:?}; encode values with the filter urlencode, or put them into `query`",
            shown()
        )));
    }
    match Url::parse(text) {
        Ok(url) => check_url(url),
        Err(error) => Err(refused(format!("`{}` is not a URL: {error}; it should begin with https://", shown()))),
    }
}

/// What holds for every URL that is called, the targets of redirects included.
fn check_url(mut url: Url) -> Result<Url, Failure> {
    if !matches!(url.scheme(), "http" | "https") {
        let message = format!(
            "blocked: `{}:` is not a scheme that tasks can call; only http and https are",
            first_characters(url.scheme(), 40)
        );
        return Err(Failure { kind: "blocked".into(), message, permanent: true, ..Failure::default() });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("the URL holds a user name or password; put them into `auth`".into()));
    }
    if url.as_str().len() > 16 * 1024 {
        return Err(refused("the URL is longer than 16 KiB; send large values in the body".into()));
    }
    url.set_fragment(None);
    Ok(url)
}

fn read_value(name: &str, value: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
        let odd = value.chars().find(|character| character.is_control() && *character != '\t').unwrap_or(' ');
        refused(format!("the value of the header `{name}` holds {odd:?}, which would end the header; remove it"))
    })
}

pub(crate) fn refused(message: String) -> Failure {
    Failure { kind: "request".into(), message, permanent: true, ..Failure::default() }
}
