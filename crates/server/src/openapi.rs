//! The description of the API: OpenAPI 3.1, made of what the routes say about themselves.

mod frame;
mod tidy;
pub(crate) mod words;

use std::fmt::Write as _;
use std::sync::OnceLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use utoipa::openapi::path::{Operation, PathItem, PathsBuilder};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, InfoBuilder, OpenApi, OpenApiBuilder};
use utoipa::{PartialSchema, ToSchema};

use crate::auth::access::{Access, Description, RouteEntry, Routes};
use crate::body::Name;
use crate::routes;
use crate::routes::secrets::SecretName;
use mainspring_api::{Fault, Problem};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}\
    table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;\
    border-bottom:1px solid #ddd}code{font-size:.95em}";

/// The document of all routes as JSON, written at the first request. Routes are registered once more for it, because
/// few servers are ever asked and the descriptions take more memory than the rest of a server.
pub(crate) fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut routes = Routes { description: Some(Description::default()), ..Routes::default() };
        routes::register(&mut routes);
        let Routes { entries, description, .. } = routes;
        let mut document =
            serde_json::to_value(document(&entries, description.unwrap_or_default())).unwrap_or_default();
        tidy::tidy(&mut document);
        document.to_string()
    })
}

fn document(entries: &[RouteEntry], description: Description) -> OpenApi {
    let mut paths = PathsBuilder::new();
    for (path, mut item) in description.paths {
        for entry in entries.iter().filter(|entry| entry.path == path) {
            let Some(operation) = operation(&mut item, &entry.method) else { continue };
            frame::complete(operation, &entry.method, &path, entry.access);
            if entry.access == Access::Open {
                operation.security = Some(vec![SecurityRequirement::default()]);
            }
        }
        paths = paths.path(path, item);
    }
    let mut components = Components::new();
    components.schemas.extend(description.schemas);
    components.schemas.insert("Problem".into(), Problem::schema());
    components.schemas.insert("Fault".into(), Fault::schema());
    components.schemas.insert("Name".into(), Name::schema());
    components.schemas.insert("SecretName".into(), SecretName::schema());
    live_messages(&mut components);
    components.responses.extend(frame::shared());
    components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Mainspring")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some("Workflows, runs, schedules and what guards them. Errors are RFC 9457 problems."))
                .build(),
        )
        .paths(paths.build())
        .components(Some(components))
        .security(Some([SecurityRequirement::new("token", Vec::<String>::new())]))
        .build()
}

/// Messages are no answers of a route, so they are described separately.
fn live_messages(components: &mut Components) {
    use mainspring_api::live::*;
    let mut schemas = Vec::new();
    macro_rules! describe {
        ($($message:ident)+) => {$(
            schemas.push((<$message as ToSchema>::name().into_owned(), $message::schema()));
            <$message as ToSchema>::schemas(&mut schemas);
        )+};
    }
    describe!(LiveMessage RunMessage TaskMessage LogMessage HeartbeatMessage ResyncMessage);
    components.schemas.extend(schemas);
}

fn operation<'i>(item: &'i mut PathItem, method: &Method) -> Option<&'i mut Operation> {
    match *method {
        Method::GET => item.get.as_mut(),
        Method::PUT => item.put.as_mut(),
        Method::POST => item.post.as_mut(),
        Method::DELETE => item.delete.as_mut(),
        Method::PATCH => item.patch.as_mut(),
        _ => None,
    }
}

/// The OpenAPI document
#[utoipa::path(get, path = "/openapi.json", tag = "about", responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub(crate) async fn openapi_json() -> Response {
    ([(CONTENT_TYPE, "application/json")], text()).into_response()
}

/// The API as a page
#[utoipa::path(get, path = "/docs", tag = "about", responses((status = 200, description = "HTML", content_type = "text/html", body = String)))]
pub(crate) async fn docs() -> Response {
    let digest = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!("default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; frame-ancestors 'none'");
    let mut response = page(text()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// One line per operation; no script, nothing from elsewhere.
fn page(openapi: &str) -> String {
    let document: serde_json::Value = serde_json::from_str(openapi).unwrap_or_default();
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Mainspring API</title><style>{STYLE}</style>\
         <h1>Mainspring API</h1><p>Send <code>Authorization: Bearer TOKEN</code>. The whole description is \
         <a href=\"/openapi.json\">/openapi.json</a> (OpenAPI 3.1).</p><table><tr><th>Method<th>Path<th>Does"
    );
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let says = operation["summary"].as_str().unwrap_or_default();
            let (method, path, says) = (escaped(&method.to_uppercase()), escaped(path), escaped(says));
            _ = write!(html, "<tr><td><code>{method}</code><td><code>{path}</code><td>{says}");
        }
    }
    html.push_str("</table></html>");
    html
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
