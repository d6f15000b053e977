//! Roles, grants, and who a caller is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What somebody may do. `viewer < operator < author < admin`; `worker` stands apart: it is no more and no less than the
/// others, and sees nothing of what they see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Viewer,
    Operator,
    Author,
    Admin,
    Worker,
}

impl Role {
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Operator, Self::Author, Self::Admin, Self::Worker];

    pub fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Author => "author",
            Self::Admin => "admin",
            Self::Worker => "worker",
        }
    }

    /// Whether who has this role has the other one too.
    pub fn covers(self, wanted: Self) -> bool {
        match (self.rank(), wanted.rank()) {
            (Some(mine), Some(wanted)) => mine >= wanted,
            (None, None) => true,
            _ => false,
        }
    }

    fn rank(self) -> Option<u8> {
        match self {
            Self::Viewer => Some(0),
            Self::Operator => Some(1),
            Self::Author => Some(2),
            Self::Admin => Some(3),
            Self::Worker => None,
        }
    }
}

/// Where a grant holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Where {
    Everywhere,
    Namespace(String),
}

impl From<String> for Where {
    fn from(text: String) -> Self {
        if text == "*" { Self::Everywhere } else { Self::Namespace(text) }
    }
}

impl From<Where> for String {
    fn from(place: Where) -> Self {
        match place {
            Where::Everywhere => "*".to_owned(),
            Where::Namespace(name) => name,
        }
    }
}

/// A role in a namespace, or in all of them (`*`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    #[schema(value_type = String, example = "default")]
    pub namespace: Where,
    pub role: Role,
}

impl Grant {
    pub fn everywhere(role: Role) -> Self {
        Self { namespace: Where::Everywhere, role }
    }

    pub fn within(namespace: impl Into<String>, role: Role) -> Self {
        Self { namespace: Where::Namespace(namespace.into()), role }
    }

    fn holds_in(&self, namespace: &str) -> bool {
        match &self.namespace {
            Where::Everywhere => true,
            Where::Namespace(name) => name == namespace,
        }
    }
}

/// Somebody who has shown who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Stands in the audit log and scopes idempotency keys: `token:ID`, `jwt:SUBJECT`, `local:USER`, `signature`.
    pub actor: String,
    /// For people: the name of the token, the subject.
    pub name: String,
    pub grants: Vec<Grant>,
}

impl Identity {
    /// Whoever may read and write the database file anyway. Never made from a request that came over the network.
    pub(crate) fn local(user: &str) -> Self {
        let grants = vec![Grant::everywhere(Role::Admin), Grant::everywhere(Role::Worker)];
        Self { actor: format!("local:{user}"), name: user.to_owned(), grants }
    }

    /// Somebody without a token, whose signature the handler has yet to check.
    pub(crate) fn unsigned() -> Self {
        Self { actor: "signature".into(), name: "signature".into(), grants: Vec::new() }
    }

    pub(crate) fn has_in(&self, role: Role, namespace: &str) -> bool {
        self.grants.iter().any(|grant| grant.role.covers(role) && grant.holds_in(namespace))
    }

    pub(crate) fn has_everywhere(&self, role: Role) -> bool {
        self.grants.iter().any(|grant| grant.role.covers(role) && grant.namespace == Where::Everywhere)
    }

    pub(crate) fn has_anywhere(&self, role: Role) -> bool {
        self.grants.iter().any(|grant| grant.role.covers(role))
    }

    /// The namespaces in which it has a role; `None` is all.
    pub(crate) fn namespaces_with(&self, role: Role) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for grant in self.grants.iter().filter(|grant| grant.role.covers(role)) {
            match &grant.namespace {
                Where::Everywhere => return None,
                Where::Namespace(name) => names.push(name.clone()),
            }
        }
        names.sort();
        names.dedup();
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_cover_what_is_below_them_and_worker_stands_apart() {
        let covered = |role: Role| -> Vec<&str> {
            Role::ALL.iter().filter(|wanted| role.covers(**wanted)).map(|wanted| wanted.word()).collect()
        };
        assert_eq!(covered(Role::Viewer), ["viewer"]);
        assert_eq!(covered(Role::Operator), ["viewer", "operator"]);
        assert_eq!(covered(Role::Author), ["viewer", "operator", "author"]);
        assert_eq!(covered(Role::Admin), ["viewer", "operator", "author", "admin"]);
        assert_eq!(covered(Role::Worker), ["worker"]);
    }

    #[test]
    fn a_grant_holds_in_its_namespace_alone() {
        let grants = vec![Grant::within("a", Role::Admin), Grant::within("b", Role::Viewer)];
        let identity = Identity { actor: "t".into(), name: "t".into(), grants };
        assert!(identity.has_in(Role::Operator, "a"));
        assert!(!identity.has_in(Role::Operator, "b"));
        assert!(!identity.has_in(Role::Viewer, "*"), "the star is no namespace");
        assert!(!identity.has_everywhere(Role::Viewer));
        assert_eq!(identity.namespaces_with(Role::Viewer), Some(vec!["a".into(), "b".into()]));
        assert_eq!(identity.namespaces_with(Role::Admin), Some(vec!["a".into()]));
        assert_eq!(identity.namespaces_with(Role::Worker), Some(vec![]));
    }
}
