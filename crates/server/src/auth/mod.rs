//! Who may enter where. Everything is shut unless a route says otherwise, and one layer ([`guard`]) decides.
//!
//! - [`access`]: what a route demands, and the builder that takes no route without it;
//! - [`identity`]: roles and grants, and who the caller is;
//! - [`caller`]: what a handler asks before it touches an object: *the namespace of the object* is authorised, never the
//!   one that the request names;
//! - [`credentials`], [`token`], [`jwt`]: from headers to an identity, with one answer for everything that is wrong;
//! - [`origin`]: Host, Origin and CORS; [`address`]: who is really at the other end; [`limits`]: how often.
//!
//! There is no anonymous mode and no default token.

pub(crate) mod access;
pub(crate) mod address;
pub(crate) mod caller;
pub(crate) mod credentials;
pub(crate) mod guard;
pub(crate) mod identity;
pub(crate) mod jwt;
pub(crate) mod known_tokens;
pub(crate) mod limits;
pub(crate) mod origin;
pub(crate) mod token;

pub use access::{Access, RouteEntry};
pub use address::Network;
pub use identity::{Grant, Identity, Role, Where};
pub use jwt::{JwtAlgorithm, JwtSettings};
pub use limits::Rates;
pub use token::Token;
