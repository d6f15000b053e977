//! Host, Origin and CORS: a page in a user's browser must not be able to drive a server on that machine.
//!
//! A name that an attacker lets point here (DNS rebinding) arrives as `Host`; so only addresses, `localhost` and names
//! that the configuration lists are answered. An `Origin` must be the host itself or listed.

use std::net::IpAddr;

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// The accepted hosts and origins.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    /// Names under which this server is reached besides addresses and `localhost`; `*` is any.
    pub hosts: Vec<String>,
    /// Origins of web pages on other hosts that may call, like `https://ops.example.com`.
    pub origins: Vec<String>,
}

impl Origins {
    pub(crate) fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let host = host(headers, uri)
            .ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "the request names no host: send one Host header"))?;
        let name = without_port(host).to_ascii_lowercase();
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let is_ours = bare.parse::<IpAddr>().is_ok()
            || name == "localhost"
            || self.hosts.iter().any(|ours| ours == "*" || ours.eq_ignore_ascii_case(&name));
        match is_ours {
            true => Ok(()),
            false => Err(Problem::new(
                StatusCode::MISDIRECTED_REQUEST,
                "this server is not known under the name of the Host header: add it to server.hosts",
            )),
        }
    }

    /// The origin, if the request has one, must be this host or a listed one.
    pub(crate) fn check_origin(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        let refused =
            || Problem::new(StatusCode::FORBIDDEN, "pages of this origin may not call: add it to server.origins");
        let origin = origin.to_str().map_err(|_| refused())?;
        if origins.next().is_some() {
            return Err(refused());
        }
        let is_same = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"))
            .zip(host(headers, uri))
            .is_some_and(|(theirs, ours)| theirs.eq_ignore_ascii_case(ours));
        match is_same || self.lists(origin) {
            true => Ok(()),
            false => Err(refused()),
        }
    }

    fn lists(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    /// The answer to a CORS preflight, if the page may call.
    pub(crate) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        let origin = headers.get(ORIGIN)?;
        let asks = method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !asks || !self.lists(origin.to_str().ok()?) {
            return None;
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let answer = response.headers_mut();
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE"));
        answer.insert(
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, x-api-key, content-type, idempotency-key, last-event-id"),
        );
        answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        Some(response)
    }

    /// Lets a listed page read the answer.
    pub(crate) fn allow(&self, origin: Option<&HeaderValue>, response: &mut Response) {
        if self.origins.is_empty() {
            return;
        }
        response.headers_mut().append(VARY, HeaderValue::from_static("Origin"));
        let Some(origin) = origin.filter(|origin| origin.to_str().is_ok_and(|origin| self.lists(origin))) else {
            return;
        };
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        let exposed = HeaderValue::from_static("x-request-id, retry-after, location, idempotent-replay");
        response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}

/// The requested host; `None` if the request gives two.
fn host<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Option<&'r str> {
    let mut values = headers.get_all(HOST).iter();
    match (values.next(), values.next()) {
        (Some(host), None) => host.to_str().ok().filter(|host| !host.is_empty()),
        (None, _) => uri.authority().map(|authority| authority.as_str()),
        _ => None,
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => {
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_addresses_localhost_and_listed_names_are_ours() {
        let ours = Origins { hosts: vec!["jobs.example.com".into()], origins: vec![] };
        let uri = Uri::from_static("/x");
        for host in ["127.0.0.1:8080", "localhost:1", "[::1]:8080", "10.1.2.3", "Jobs.Example.com:443", "::1"] {
            assert!(ours.check_host(&headers(&[("host", host)]), &uri).is_ok(), "{host}");
        }
        for host in ["evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "jobs.example.com.evil", "", "a:b:c"] {
            assert!(ours.check_host(&headers(&[("host", host)]), &uri).is_err(), "{host}");
        }
        assert!(ours.check_host(&HeaderMap::new(), &uri).is_err());
    }

    #[test]
    fn an_origin_is_the_host_or_listed() {
        let ours = Origins { hosts: vec![], origins: vec!["https://ops.example.com".into()] };
        let uri = Uri::from_static("/x");
        let check =
            |origin: &str| ours.check_origin(&headers(&[("host", "127.0.0.1:8080"), ("origin", origin)]), &uri).is_ok();
        assert!(check("http://127.0.0.1:8080"));
        assert!(check("https://ops.example.com"));
        for foreign in
            ["null", "http://127.0.0.1:9090", "http://evil.com", "https://ops.example.com.evil.com", "file://"]
        {
            assert!(!check(foreign), "{foreign}");
        }
    }
}
