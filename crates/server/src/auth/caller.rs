//! The caller of a handler, and the authorisation of namespaces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mainspring_store::Operator;

use super::access::Access;
use super::identity::{Identity, Role};
use crate::problem::Problem;

/// Longer names of a request are cut.
const LONGEST_NAME: usize = 255;

/// The caller and its route. Clones share the authorised namespaces.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    identity: Arc<Identity>,
    access: Access,
    authorised: Arc<Authorised>,
}

#[derive(Debug, Default)]
struct Authorised {
    yes: AtomicBool,
    namespace: Mutex<Option<String>>,
}

impl Caller {
    pub(super) fn new(identity: Arc<Identity>, access: Access) -> Self {
        Self { identity, access, authorised: Arc::default() }
    }

    /// Authorises the namespace of an object. Take the namespace from the object that was read, not from the request;
    /// for a new object it is the namespace in which the object is created.
    pub(crate) fn enter(&self, namespace: &str) -> Result<(), Problem> {
        self.enter_as(self.access.role().unwrap_or(Role::Admin), namespace)
    }

    /// Authorises what concerns all namespaces: the caller must have the role in all of them.
    pub(crate) fn enter_everywhere(&self, role: Role) -> Result<(), Problem> {
        self.note(None);
        match self.identity.has_everywhere(role) {
            true => Ok(()),
            false => Err(Problem::forbidden(Some(role))),
        }
    }

    /// Authorises a role other than the one that the route demands.
    pub(crate) fn enter_as(&self, role: Role, namespace: &str) -> Result<(), Problem> {
        self.note(Some(namespace));
        match self.identity.has_in(role, namespace) {
            true => Ok(()),
            false => Err(Problem::forbidden(Some(role))),
        }
    }

    /// The namespaces whose objects may be listed; `None` is all of them.
    pub(crate) fn sees(&self) -> Option<Vec<String>> {
        self.note(None);
        self.identity.namespaces_with(self.access.role().unwrap_or(Role::Admin))
    }

    /// Narrows a list to the requested namespace, or to all that the caller may see.
    pub(crate) fn sees_of(&self, wanted: Option<&str>) -> Result<Option<Vec<String>>, Problem> {
        match wanted {
            None => Ok(self.sees()),
            Some(namespace) => self.enter(namespace).map(|()| Some(vec![namespace.to_owned()])),
        }
    }

    /// For [`Access::Signed`]: notes that the handler verified a signature of this namespace.
    pub(crate) fn vouched(&self, namespace: &str) {
        self.note(Some(namespace));
    }

    /// Whether the handler must still verify a signature.
    pub(crate) fn is_unverified(&self) -> bool {
        self.identity.actor == Identity::unsigned().actor
    }

    /// The owner of idempotency keys. Signed callers share an identity, so their keys belong to the path.
    pub(crate) fn key_owner(&self, path: &str) -> String {
        match self.is_unverified() {
            true => format!("{}:{path}", self.identity.actor),
            false => self.identity.actor.clone(),
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The operator of an action, for the history of a run: the name that the request gives, with the token that sent
    /// it.
    pub(crate) fn operator(&self, by: Option<String>, reason: Option<String>) -> Operator {
        let name = &self.identity.name;
        match self.given(by) {
            Some(by) => Operator { by, reason, token: Some(name.clone()), ..Operator::default() },
            None => Operator::new(name.clone(), reason),
        }
    }

    /// A name that the request gives, together with the caller's own: a claimed name must not pass for a proven one.
    pub(crate) fn signed(&self, by: Option<String>) -> String {
        let name = &self.identity.name;
        match self.given(by) {
            Some(by) => format!("{by} (by {name})"),
            None => name.clone(),
        }
    }

    /// A name that the request gives, on one line, if it differs from the caller's own.
    fn given(&self, by: Option<String>) -> Option<String> {
        let plain = |by: String| -> String { by.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect() };
        by.map(plain).filter(|by| !by.is_empty() && *by != self.identity.name)
    }

    pub(super) fn has_asked(&self) -> bool {
        self.authorised.yes.load(Ordering::Acquire)
    }

    /// The namespace that was authorised last.
    pub(crate) fn namespace(&self) -> Option<String> {
        self.authorised.namespace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, namespace: Option<&str>) {
        self.authorised.yes.store(true, Ordering::Release);
        if let Some(namespace) = namespace {
            *self.authorised.namespace.lock().unwrap_or_else(PoisonError::into_inner) = Some(namespace.to_owned());
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The guard sets the caller of every request.
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::unauthorised)
    }
}
