//! The access that a route demands, and the only way to register a route.
//!
//! [`Routes::at`] takes the access together with the handlers, and [`Access`] has no default, so a route without one
//! does not compile. The guard decides by the resulting list, and a test compares it with `tests/access.txt`.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::Method;
use axum::routing::MethodRouter;
use axum::{Extension, Router};
use utoipa::openapi::path::{HttpMethod, Parameter, ParameterIn, PathItem};
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::router::UtoipaMethodRouter;

use super::identity::Role;
use crate::body::FixedSegment;
use crate::state::ApiState;

/// Where the API begins.
pub(crate) const BASE: &str = "/api/v1";
/// The alias of the API's prefix.
const ALIAS: &str = "/v1";
/// Paths that are also served without a prefix.
const UNPREFIXED: &[&str] = &["/workflows", "/workflow-runs", "/task-runs", "/workers"];

/// The access that a route demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// None. Only for probes and files without data, by exact path.
    Open,
    /// Any valid token.
    Anyone,
    /// The role in some namespace, for routes that belong to no namespace and reveal nothing about any.
    Anywhere(Role),
    /// The role in the namespace of the object. The handler must authorise it through its `Caller`; otherwise the
    /// answer is withheld.
    InNamespace(Role),
    /// The role in all namespaces, for the whole installation.
    Everywhere(Role),
    /// The handler verifies a signature, or a token has the role.
    Signed(Role),
}

impl Access {
    /// Whether the handler must authorise a namespace before it answers.
    pub(crate) fn must_ask(self) -> bool {
        matches!(self, Self::InNamespace(_) | Self::Signed(_))
    }

    pub(crate) fn role(self) -> Option<Role> {
        match self {
            Self::Open | Self::Anyone => None,
            Self::Anywhere(role) | Self::InNamespace(role) | Self::Everywhere(role) | Self::Signed(role) => Some(role),
        }
    }
}

/// One method of a path, and the access it demands.
#[derive(Debug, Clone)]
pub struct RouteEntry {
    pub method: Method,
    pub path: String,
    pub access: Access,
    /// The parameters that its query may have.
    pub query: Vec<String>,
    /// The largest body.
    pub body_limit: usize,
    /// Successful calls leave no audit row. For the worker protocol, which has its own history.
    pub quiet: bool,
    /// Nothing of a request is stored under an Idempotency-Key, not even a hash, because its body is a secret.
    pub keyless: bool,
    /// The request makes many transactions, and each may be repeated.
    pub in_pieces: bool,
    /// The handler streams the body, which is never held in memory.
    pub streamed: bool,
}

/// The collected routes.
#[derive(Default)]
pub(crate) struct Routes {
    pub(crate) router: Router<ApiState>,
    pub(crate) entries: Vec<RouteEntry>,
    /// The descriptions of routes. They are collected only for the OpenAPI document, because they are much larger than
    /// the routes.
    pub(crate) description: Option<Description>,
}

#[derive(Default)]
pub(crate) struct Description {
    pub(crate) paths: BTreeMap<String, PathItem>,
    pub(crate) schemas: BTreeMap<String, RefOr<Schema>>,
}

impl Description {
    fn add_schema(&mut self, name: String, schema: RefOr<Schema>) {
        let known = self.schemas.insert(name.clone(), schema);
        debug_assert!(
            known.is_none_or(|known| known == self.schemas[&name]),
            "two shapes are described as `{name}`: give one of them another name (`#[schema(as = …)]`)"
        );
    }

    fn add_path(&mut self, path: &str, item: PathItem) {
        match self.paths.get_mut(path) {
            Some(known) => known.merge_operations(item),
            None => _ = self.paths.insert(path.to_owned(), item),
        }
    }
}

/// A registered route, for further settings.
pub(crate) struct Route<'d> {
    routes: &'d mut Routes,
    first: usize,
    handlers: MethodRouter<ApiState>,
}

impl Routes {
    /// Registers handlers under `/api/v1`, `/v1`, and unprefixed where that is supported. `routes!(…)` takes functions
    /// with `#[utoipa::path(…)]`, whose `path` has no prefix.
    pub(crate) fn at(&mut self, access: Access, handlers: UtoipaMethodRouter<ApiState>) -> Route<'_> {
        self.register(access, handlers, true)
    }

    /// Registers handlers under exactly their path: `/openapi.json`, `/ws/updates`.
    pub(crate) fn at_root(&mut self, access: Access, handlers: UtoipaMethodRouter<ApiState>) -> Route<'_> {
        self.register(access, handlers, false)
    }

    /// Registers a static page or file under exactly its path: open to everyone, and no part of the API's document.
    pub(crate) fn open_page(&mut self, path: &str, handlers: MethodRouter<ApiState>) {
        self.open(path.to_owned(), &[(Method::GET, Vec::new())], Access::Open, &handlers);
    }

    fn register(&mut self, access: Access, handlers: UtoipaMethodRouter<ApiState>, prefixed: bool) -> Route<'_> {
        let (schemas, paths, handlers) = handlers;
        if let Some(description) = &mut self.description {
            schemas.into_iter().for_each(|(name, schema)| description.add_schema(name, schema));
        }
        let first = self.entries.len();
        for (path, item) in paths.paths {
            let methods = methods(&item);
            let queries: Vec<(Method, Vec<String>)> =
                methods.iter().map(|one| (one.clone(), query(&item, one))).collect();
            let shown = if prefixed { format!("{BASE}{path}") } else { path.clone() };
            if let Some(description) = &mut self.description {
                description.add_path(&shown, item);
            }
            let mut places = vec![shown];
            if prefixed {
                places.push(format!("{ALIAS}{path}"));
                let is_known = |known: &str| path == known || path.starts_with(&format!("{known}/"));
                if UNPREFIXED.iter().any(|known| is_known(known)) {
                    places.push(path);
                }
            }
            for place in places {
                self.open(place, &queries, access, &handlers);
            }
        }
        Route { routes: self, first, handlers }
    }

    fn open(
        &mut self,
        path: String,
        methods: &[(Method, Vec<String>)],
        access: Access,
        handlers: &MethodRouter<ApiState>,
    ) {
        for (method, query) in methods {
            let body_limit = crate::body::USUAL_LIMIT;
            self.entries.push(RouteEntry {
                method: method.clone(),
                path: path.clone(),
                access,
                query: query.clone(),
                body_limit,
                quiet: false,
                keyless: false,
                in_pieces: false,
                streamed: false,
            });
        }
        let router = std::mem::take(&mut self.router);
        self.router = router.route(&path, handlers.clone());
    }
}

impl Route<'_> {
    /// Takes bodies up to `bytes` bytes.
    pub(crate) fn body_limit(self, bytes: usize) -> Self {
        for entry in &mut self.routes.entries[self.first..] {
            entry.body_limit = bytes;
        }
        self
    }

    /// Leaves no audit row on success.
    pub(crate) fn quiet(self) -> Self {
        for entry in &mut self.routes.entries[self.first..] {
            entry.quiet = true;
        }
        self
    }

    /// Makes many transactions instead of one, for work that would block other requests.
    pub(crate) fn in_pieces(self) -> Self {
        for entry in &mut self.routes.entries[self.first..] {
            entry.in_pieces = true;
        }
        self
    }

    /// Streams the body to the handler, which bounds it. The request ends with its connection.
    pub(crate) fn streamed(self) -> Self {
        for entry in &mut self.routes.entries[self.first..] {
            entry.streamed = true;
        }
        self
    }

    /// Ignores Idempotency-Key, for idempotent writes whose bodies must not be stored.
    pub(crate) fn keyless(self) -> Self {
        for entry in &mut self.routes.entries[self.first..] {
            entry.keyless = true;
        }
        self
    }

    /// Accepts these aliases of query parameters; the descriptions of the parameters name them.
    pub(crate) fn also_takes(self, names: &[&str]) -> Self {
        for entry in &mut self.routes.entries[self.first..] {
            entry.query.extend(names.iter().map(|name| (*name).to_owned()));
        }
        self
    }

    /// Also answers where other methods have one of these words in place of the last parameter, which is that word then:
    /// a fixed segment wins over a parameter, whichever methods it has.
    pub(crate) fn also_named(self, words: &[&'static str]) -> Self {
        let entries = self.routes.entries[self.first..].to_vec();
        for word in words {
            let handlers = self.handlers.clone().route_layer(Extension(FixedSegment(word)));
            let named =
                |path: &str| path.rsplit_once('/').map_or_else(String::new, |(parent, _)| format!("{parent}/{word}"));
            let paths: BTreeSet<String> = entries.iter().map(|entry| named(&entry.path)).collect();
            for path in paths {
                let router = std::mem::take(&mut self.routes.router);
                self.routes.router = router.route(&path, handlers.clone());
            }
            let answered = entries.iter().map(|entry| RouteEntry { path: named(&entry.path), ..entry.clone() });
            self.routes.entries.extend(answered);
        }
        self
    }

    /// Also answers under another full path, with the same access. Parameters are matched by position.
    pub(crate) fn also_at(self, path: &str) -> Self {
        let first = &self.routes.entries[self.first];
        let (access, home) = (first.access, first.path.clone());
        let entries: Vec<RouteEntry> =
            self.routes.entries[self.first..].iter().filter(|entry| entry.path == home).cloned().collect();
        let methods: Vec<(Method, Vec<String>)> =
            entries.iter().map(|entry| (entry.method.clone(), entry.query.clone())).collect();
        self.routes.open(path.to_owned(), &methods, access, &self.handlers);
        let made = self.routes.entries.len() - methods.len();
        for (entry, model) in self.routes.entries[made..].iter_mut().zip(&entries) {
            (entry.body_limit, entry.quiet) = (model.body_limit, model.quiet);
            (entry.keyless, entry.in_pieces) = (model.keyless, model.in_pieces);
            entry.streamed = model.streamed;
        }
        self
    }
}

fn methods(item: &PathItem) -> Vec<Method> {
    let known = [
        (&item.get, Method::GET),
        (&item.put, Method::PUT),
        (&item.post, Method::POST),
        (&item.delete, Method::DELETE),
        (&item.patch, Method::PATCH),
    ];
    known.into_iter().filter(|(operation, _)| operation.is_some()).map(|(_, method)| method).collect()
}

/// The names of the query parameters that an operation is documented with.
fn query(item: &PathItem, method: &Method) -> Vec<String> {
    let operation = match *method {
        Method::GET => &item.get,
        Method::PUT => &item.put,
        Method::POST => &item.post,
        Method::DELETE => &item.delete,
        _ => &item.patch,
    };
    let parameters = operation.iter().flat_map(|operation| operation.parameters.iter().flatten());
    let named = |one: &RefOr<Parameter>| match one {
        RefOr::T(one) if one.parameter_in == ParameterIn::Query => Some(one.name.clone()),
        _ => None,
    };
    parameters.filter_map(named).collect()
}

/// Fails to compile when a method is missing in the list above, so that no method is documented unnoticed.
#[expect(dead_code, reason = "a reminder that is checked by the compiler")]
fn every_method(method: &HttpMethod) -> bool {
    match method {
        HttpMethod::Get | HttpMethod::Put | HttpMethod::Post | HttpMethod::Delete | HttpMethod::Patch => true,
        HttpMethod::Options | HttpMethod::Head | HttpMethod::Trace => false,
    }
}
