//! The session cookie, and when it counts.
//!
//! A cookie travels with every request of a browser, also with those that a foreign page makes. So it counts only for
//! requests that the browser says come from this very origin, and for writes only with a header that a foreign page
//! cannot set without being asked. Beside a bearer token it is refused: which of the two counts would be a guess.

use std::net::IpAddr;

use axum::http::header::{COOKIE, HOST, ORIGIN, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, Method};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// The header that the interface sends with every write.
pub(crate) const WRITE_HEADER: &str = "x-mainspring-ui";
/// Where pages are reached by TLS; the prefix binds the cookie to this very host.
const SECURE_NAME: &str = "__Host-mainspring";
/// Browsers take no `__Host-` cookie over plain HTTP, which is only served to this machine itself.
const LOOPBACK_NAME: &str = "mainspring";
const ID_BYTES: usize = 32;

/// The id of a session as its browser has it.
#[derive(Clone)]
pub(crate) struct SessionId([u8; ID_BYTES]);

impl std::fmt::Debug for SessionId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SessionId")
    }
}

impl SessionId {
    /// 256 bits that cannot be guessed. Ids are made here only: one that a request brings along is never adopted.
    pub(crate) fn generate() -> Result<Self, getrandom::Error> {
        let mut id = [0_u8; ID_BYTES];
        getrandom::fill(&mut id)?;
        Ok(Self(id))
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        Some(Self(URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?))
    }

    pub(crate) fn reveal(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }
}

/// The session that a request may use. `Ok(None)` without a cookie of ours.
pub(crate) fn session(method: &Method, headers: &HeaderMap) -> Result<Option<SessionId>, Problem> {
    let Some(text) = value(headers)? else { return Ok(None) };
    let id = SessionId::read(text).ok_or_else(Problem::unauthorised)?;
    match is_own_page(headers) && (is_read(method) || headers.contains_key(WRITE_HEADER)) {
        true => Ok(Some(id)),
        false => Err(Problem::unauthorised()),
    }
}

/// Whether a page of this origin made the request. A WebSocket must say so with `Origin`: it is not bound by CORS.
pub(crate) fn is_own_page(headers: &HeaderMap) -> bool {
    if headers.contains_key(UPGRADE) {
        return has_own_origin(headers);
    }
    match headers.get("sec-fetch-site") {
        Some(site) => site == "same-origin" && headers.get_all("sec-fetch-site").iter().count() == 1,
        None => has_own_origin(headers),
    }
}

/// `Set-Cookie` for a session, bounded by the browser too.
pub(crate) fn set(headers: &HeaderMap, id: &SessionId, seconds: i64) -> Option<HeaderValue> {
    written(headers, &id.reveal(), seconds)
}

/// `Set-Cookie` that makes the browser forget it.
pub(crate) fn forget(headers: &HeaderMap) -> Option<HeaderValue> {
    written(headers, "", 0)
}

fn written(headers: &HeaderMap, value: &str, seconds: i64) -> Option<HeaderValue> {
    let (name, secure) = if is_loopback(headers) { (LOOPBACK_NAME, "") } else { (SECURE_NAME, "; Secure") };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).ok()
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn has_own_origin(headers: &HeaderMap) -> bool {
    let single = |name| {
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().ok(),
            _ => None,
        }
    };
    let (Some(origin), Some(host)) = (single(ORIGIN), single(HOST)) else { return false };
    let bare = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    bare.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

fn is_loopback(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The value of our cookie; two of them are refused.
fn value(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let name = if is_loopback(headers) { LOOPBACK_NAME } else { SECURE_NAME };
    let mut found = None;
    for header in headers.get_all(COOKIE) {
        let text = header.to_str().map_err(|_| Problem::unauthorised())?;
        for pair in text.split(';') {
            let Some((key, value)) = pair.trim().split_once('=') else { continue };
            if key == name && found.replace(value).is_some() {
                return Err(Problem::unauthorised());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn check(method: Method, pairs: &[(&'static str, &str)], expected: Result<bool, ()>) {
        let cookie = format!("theme=dark; mainspring={}", SessionId([7; 32]).reveal());
        let mut all = vec![("host", "localhost:8080"), ("cookie", cookie.as_str())];
        all.extend(pairs);
        let found = session(&method, &headers(&all)).map(|id| id.is_some()).map_err(|_| ());
        assert_eq!(found, expected, "{method} {pairs:?}");
    }

    #[test]
    fn a_cookie_counts_only_for_pages_of_this_origin() {
        check(Method::GET, &[("sec-fetch-site", "same-origin")], Ok(true));
        for foreign in ["cross-site", "same-site", "none"] {
            check(Method::GET, &[("sec-fetch-site", foreign)], Err(()));
        }
        check(Method::GET, &[], Err(()));
        check(Method::GET, &[("origin", "http://localhost:8080")], Ok(true));
        check(Method::GET, &[("origin", "http://evil.example")], Err(()));
        check(Method::GET, &[("sec-fetch-site", "cross-site"), ("origin", "http://localhost:8080")], Err(()));
    }

    #[test]
    fn a_write_needs_the_header_and_a_websocket_its_origin() {
        let own = ("sec-fetch-site", "same-origin");
        check(Method::POST, &[own], Err(()));
        check(Method::POST, &[own, (WRITE_HEADER, "1")], Ok(true));
        check(Method::GET, &[own, ("upgrade", "websocket")], Err(()));
        check(Method::GET, &[("upgrade", "websocket"), ("origin", "http://localhost:8080")], Ok(true));
        check(Method::GET, &[("upgrade", "websocket"), ("origin", "http://localhost:9090")], Err(()));
    }

    #[test]
    fn the_cookie_is_bound_to_the_host_where_it_can_be() {
        let id = SessionId([7; 32]);
        let of = |host: &str| set(&headers(&[("host", host)]), &id, 60).unwrap().to_str().unwrap().to_owned();
        for host in ["localhost", "127.0.0.1:8080", "[::1]:80", "127.9.9.9"] {
            assert!(of(host).starts_with("mainspring=") && !of(host).contains("Secure"), "{host}");
        }
        for host in ["jobs.example.com", "10.0.0.1", "localhost.evil.com", "127.0.0.1.evil.com"] {
            assert!(of(host).starts_with("__Host-mainspring=") && of(host).contains("; Secure"), "{host}");
        }
        let both = format!("mainspring={0}; mainspring={0}", id.reveal());
        let twice = headers(&[("host", "localhost"), ("cookie", &both), ("sec-fetch-site", "same-origin")]);
        assert!(session(&Method::GET, &twice).is_err());
    }
}
