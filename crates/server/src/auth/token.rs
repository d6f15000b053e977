//! API tokens: `ms_` + id + `_` + secret. Only the SHA-256 of the whole is kept.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

const PREFIX: &str = "ms_";
const SECRET_BYTES: usize = 32;

/// A token as its holder has it. It is shown once.
#[derive(Clone)]
pub struct Token {
    id: Uuid,
    text: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret belongs into no log.
        out.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Token {
    /// Makes a token with 256 random bits.
    pub fn generate(id: Uuid) -> Result<Self, getrandom::Error> {
        let mut secret = [0_u8; SECRET_BYTES];
        getrandom::fill(&mut secret)?;
        Ok(Self { id, text: format!("{PREFIX}{}_{}", id.simple(), URL_SAFE_NO_PAD.encode(secret)) })
    }

    /// Reads a token; `None` for any other format.
    pub fn read(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        if id.len() != 32 || URL_SAFE_NO_PAD.decode(secret).ok()?.len() != SECRET_BYTES {
            return None;
        }
        Some(Self { id: Uuid::try_parse(id).ok()?, text: text.to_owned() })
    }

    pub fn id(&self) -> Uuid {
        self.id
    }

    /// What its holder sends.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }

    /// Compares in constant time.
    pub(crate) fn matches(&self, hash: &[u8]) -> bool {
        self.hash().ct_eq(hash).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_differ() {
        let id = Uuid::from_u128(7);
        let (one, other) = (Token::generate(id).unwrap(), Token::generate(id).unwrap());
        assert_ne!(one.reveal(), other.reveal());
        let read = Token::read(one.reveal()).unwrap();
        assert_eq!(read.id(), id);
        assert!(read.matches(&one.hash()));
        assert!(!read.matches(&other.hash()));
        assert!(!read.matches(&[]));
        assert!(!format!("{one:?}").contains(one.reveal()));
        for wrong in ["", "ms_", "ms_x_y", &one.reveal()[..60], &format!("{}x", one.reveal())] {
            assert!(Token::read(wrong).is_none(), "{wrong}");
        }
    }
}
