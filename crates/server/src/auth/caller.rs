//! What a handler knows of who calls, and has to ask before it answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use mainspring_store::Operator;

use super::access::Access;
use super::identity::{Identity, Role};
use crate::problem::Problem;

/// What is kept of a name that a request gives.
const LONGEST_NAME: usize = 255;

/// Who calls, through which route. Clones share what was asked.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    identity: Arc<Identity>,
    access: Access,
    asked: Arc<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    yes: AtomicBool,
    namespace: Mutex<Option<String>>,
}

impl Caller {
    pub(super) fn new(identity: Arc<Identity>, access: Access) -> Self {
        Self { identity, access, asked: Arc::default() }
    }

    /// Asks to act on an object of this namespace. Take the namespace from the object that was read, not from the
    /// request; where an object is being made, it is the namespace in which it is made.
    pub(crate) fn enter(&self, namespace: &str) -> Result<(), Problem> {
        self.enter_as(self.access.role().unwrap_or(Role::Admin), namespace)
    }

    /// The same for something that needs another role than the route demands.
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

    /// Narrows a list to one namespace that was asked for, or to all that may be seen.
    pub(crate) fn sees_of(&self, wanted: Option<&str>) -> Result<Option<Vec<String>>, Problem> {
        match wanted {
            None => Ok(self.sees()),
            Some(namespace) => self.enter(namespace).map(|()| Some(vec![namespace.to_owned()])),
        }
    }

    /// For [`Access::Signed`]: the handler has checked a signature that belongs to this namespace.
    pub(crate) fn vouched(&self, namespace: &str) {
        self.note(Some(namespace));
    }

    /// Whether the handler has yet to check who calls.
    pub(crate) fn is_unverified(&self) -> bool {
        self.identity.actor == Identity::unsigned().actor
    }

    /// Whose idempotency keys these are. Those who sign share an identity, so theirs belong to what they call.
    pub(crate) fn key_owner(&self, path: &str) -> String {
        match self.is_unverified() {
            true => format!("{}:{path}", self.identity.actor),
            false => self.identity.actor.clone(),
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Who stands behind an action, for the history of a run: what the request says, with the token that sent it
    /// beside it.
    pub(crate) fn operator(&self, by: Option<String>, reason: Option<String>) -> Operator {
        let name = &self.identity.name;
        match self.given(by) {
            Some(by) => Operator { by, reason, token: Some(name.clone()), ..Operator::default() },
            None => Operator::new(name.clone(), reason),
        }
    }

    /// A name that the request gives, with the name of who gives it: what is said must not pass for what is proven.
    pub(crate) fn signed(&self, by: Option<String>) -> String {
        let name = &self.identity.name;
        match self.given(by) {
            Some(by) => format!("{by} (by {name})"),
            None => name.clone(),
        }
    }

    /// A name that the request gives, on one line, if it is another than the caller's own.
    fn given(&self, by: Option<String>) -> Option<String> {
        let plain = |by: String| -> String { by.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect() };
        by.map(plain).filter(|by| !by.is_empty() && *by != self.identity.name)
    }

    pub(super) fn has_asked(&self) -> bool {
        self.asked.yes.load(Ordering::Acquire)
    }

    /// The namespace that was asked for last.
    pub(crate) fn namespace(&self) -> Option<String> {
        self.asked.namespace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, namespace: Option<&str>) {
        self.asked.yes.store(true, Ordering::Release);
        if let Some(namespace) = namespace {
            *self.asked.namespace.lock().unwrap_or_else(PoisonError::into_inner) = Some(namespace.to_owned());
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Behind the guard there is always one; without the guard no request gets in.
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::unauthorised)
    }
}
