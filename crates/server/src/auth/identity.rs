//! Roles, grants, and who a caller is.

pub use mainspring_api::auth::{Grant, Role, Where};

/// Whether one role includes another.
pub(crate) fn covers(role: Role, wanted: Role) -> bool {
    match (rank(role), rank(wanted)) {
        (Some(mine), Some(wanted)) => mine >= wanted,
        (None, None) => true,
        _ => false,
    }
}

fn rank(role: Role) -> Option<u8> {
    match role {
        Role::Viewer => Some(0),
        Role::Operator => Some(1),
        Role::Author => Some(2),
        Role::Admin => Some(3),
        Role::Worker => None,
    }
}

fn holds_in(grant: &Grant, namespace: &str) -> bool {
    match &grant.namespace {
        Where::Everywhere => true,
        Where::Namespace(name) => name == namespace,
    }
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The key in the audit log and of idempotency keys: `token:ID`, `jwt:SUBJECT`, `local:USER`, `signature`.
    pub actor: String,
    /// For people: the name of the token, the subject.
    pub name: String,
    pub grants: Vec<Grant>,
}

impl Identity {
    /// A process with access to the database file. A request from the network never gets it.
    pub(crate) fn local(user: &str) -> Self {
        let grants = vec![Grant::everywhere(Role::Admin), Grant::everywhere(Role::Worker)];
        Self { actor: format!("local:{user}"), name: user.to_owned(), grants }
    }

    /// A caller without a token, whose signature the handler must verify.
    pub(crate) fn unsigned() -> Self {
        Self { actor: "signature".into(), name: "signature".into(), grants: Vec::new() }
    }

    pub(crate) fn has_in(&self, role: Role, namespace: &str) -> bool {
        self.grants.iter().any(|grant| covers(grant.role, role) && holds_in(grant, namespace))
    }

    pub(crate) fn has_everywhere(&self, role: Role) -> bool {
        self.grants.iter().any(|grant| covers(grant.role, role) && grant.namespace == Where::Everywhere)
    }

    pub(crate) fn has_anywhere(&self, role: Role) -> bool {
        self.grants.iter().any(|grant| covers(grant.role, role))
    }

    /// The namespaces in which it has a role; `None` is all.
    pub(crate) fn namespaces_with(&self, role: Role) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for grant in self.grants.iter().filter(|grant| covers(grant.role, role)) {
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
            Role::ALL.iter().filter(|wanted| covers(role, **wanted)).map(|wanted| wanted.word()).collect()
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
