//! What guards the API: tokens by their hash, the audit log, answers kept for repeated requests, sealed secrets, and
//! the quotas of namespaces.

mod audit;
mod idempotency;
mod namespaces;
mod secrets;
mod tokens;
mod ui_sessions;

pub(crate) use audit::add_audit_within;
pub use audit::{AuditFilter, AuditRow};
pub(crate) use idempotency::keep_answer_within;
pub use idempotency::{Claim, KeptAnswer};
pub(crate) use namespaces::require_room_for_workflow;
pub use namespaces::{NamespaceRow, Quotas};
pub use secrets::{SealedSecret, SecretRow};
pub use tokens::{NewToken, TokenRow};
pub use ui_sessions::UiSession;
