//! What guards the API: tokens by their hash, the audit log, answers kept for repeated requests.

mod audit;
mod idempotency;
mod tokens;

pub use audit::{AuditFilter, AuditRow};
pub use idempotency::{Claim, KeptAnswer};
pub use tokens::{NewToken, TokenRow};
