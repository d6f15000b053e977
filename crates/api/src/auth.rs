//! Tokens, roles and grants.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::words::closed_set;

closed_set! {
    /// What a token permits. `viewer < operator < author < admin`; `worker` is apart: it is no more and no less than the
    /// others, and sees nothing of what they see.
    Role {
        Viewer = "viewer",
        Operator = "operator",
        Author = "author",
        Admin = "admin",
        Worker = "worker",
    }
}

/// Who calls.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// As in the audit log.
    pub actor: String,
    pub name: String,
    pub grants: Vec<Grant>,
}

/// An API token, without what makes it one.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ShownToken {
    pub id: Uuid,
    pub name: String,
    pub grants: Vec<Grant>,
    pub created_by: String,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// To the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// A token that was just made.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct MadeToken {
    pub id: Uuid,
    /// Shown this once.
    pub token: String,
    pub name: String,
    pub grants: Vec<Grant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What it is for.
    pub name: String,
    /// A single role, in `namespace` or everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Of `role`; `*` or none is everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Roles in namespaces, instead of `role`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<Grant>>,
    /// RFC 3339; none is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
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
}
