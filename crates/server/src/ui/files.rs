//! The static files of the interface, as `npm run build` left them in `ui/dist`.
//!
//! They hold no data and are open. Pages are a closed list of patterns that all answer with the same document; assets are
//! found by their exact name, which holds a hash of their content. A program that was built without them answers with a
//! page that says how to build them.

use axum::extract::Path;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use rust_embed::RustEmbed;

use crate::auth::access::Routes;
use crate::problem::Problem;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'";
/// The name of an asset changes with its content.
const FOR_EVER: &str = "public, max-age=31536000, immutable";
const DOCUMENT: &str = "index.html";

/// Every page of the interface, as `ui/src/app/routes.ts` lists them.
const PAGES: &[&str] = &[
    "/ui/",
    "/ui/sign-in",
    "/ui/workflows",
    "/ui/w/{namespace}/{name}",
    "/ui/w/{namespace}/{name}/start",
    "/ui/r/{id}",
    "/ui/r/{id}/log",
    "/ui/runs",
    "/ui/dlq",
    "/ui/dlq/{fingerprint}",
    "/ui/calendar",
    "/ui/jobs",
    "/ui/events",
    "/ui/workers",
    "/ui/admin",
];

const UNBUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Mainspring</title>\
    <h1>The web interface is not built into this program</h1>\
    <p>Build it with <code>npm install &amp;&amp; npm run build</code> in the folder <code>ui</code>, then build the program again; \
    <code>make run</code> does both. The API is served under <code>/api/v1</code>.</p></html>";

#[derive(RustEmbed)]
#[folder = "../../ui/dist"]
#[allow_missing = true]
struct Built;

pub(super) fn register(routes: &mut Routes) {
    for page in PAGES {
        routes.open_page(page, get(document));
    }
    routes.open_page("/ui", get(async || to_interface()));
    routes.open_page("/", get(root));
    routes.open_page("/ui/assets/{file}", get(asset));
    routes.open_page("/ui/{*path}", get(missing));
}

/// Whether a browser asks for a page to show.
fn wants_page(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|accepted| {
        accepted.split(',').any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html"))
    })
}

/// A path that no page has: the document says so to people.
async fn missing(headers: HeaderMap) -> Response {
    match wants_page(&headers) {
        true => (StatusCode::NOT_FOUND, document(headers).await).into_response(),
        false => Problem::not_found("the web interface has no such page").into_response(),
    }
}

/// Browsers are led to the interface; programs that ask for something else learn nothing.
async fn root(headers: HeaderMap) -> Response {
    match wants_page(&headers) {
        true => to_interface(),
        false => Problem::not_found("there is nothing under this path: the API begins at /api/v1").into_response(),
    }
}

fn to_interface() -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, "/ui/")]).into_response()
}

async fn document(headers: HeaderMap) -> Response {
    let policy = (CONTENT_SECURITY_POLICY, POLICY);
    match file(DOCUMENT, &headers) {
        // Asked for each time, so that a new build is seen at once.
        Some(found) => ([policy, (CACHE_CONTROL, "no-cache")], found).into_response(),
        None => ([policy, (CONTENT_TYPE, "text/html; charset=utf-8")], UNBUILT).into_response(),
    }
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    // Compressed copies are reached by asking for a coding, not by name.
    let is_plain = !name.ends_with(".gz") && !name.ends_with(".br");
    match file(&format!("assets/{name}"), &headers).filter(|_| is_plain) {
        Some(found) => ([(CACHE_CONTROL, FOR_EVER), (CONTENT_SECURITY_POLICY, POLICY)], found).into_response(),
        None => Problem::not_found("there is no such file: load the page again").into_response(),
    }
}

/// A file in the best coding that the browser takes.
fn file(name: &str, headers: &HeaderMap) -> Option<Response> {
    for (coding, suffix) in [("br", ".br"), ("gzip", ".gz")] {
        if takes(headers, coding)
            && let Some(found) = Built::get(&format!("{name}{suffix}"))
        {
            let mut response = found.data.into_owned().into_response();
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
            return Some(described(name, response));
        }
    }
    Built::get(name).map(|found| described(name, found.data.into_owned().into_response()))
}

fn described(name: &str, mut response: Response) -> Response {
    let kind = match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

fn takes(headers: &HeaderMap, coding: &str) -> bool {
    headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|codings| {
        codings.split(',').any(|one| {
            let mut parts = one.split(';').map(str::trim);
            parts.next() == Some(coding) && !parts.any(|weight| matches!(weight, "q=0" | "q=0.0"))
        })
    })
}
