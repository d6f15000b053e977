//! Seals secrets, so that a copy of the database alone reveals none.
//!
//! XChaCha20-Poly1305 with a random nonce; namespace and name are associated data, so that a sealed value that is moved
//! to another name or namespace does not open. The first key seals, all keys open: that is how keys are changed.

use std::sync::Arc;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use mainspring_store::SealedSecret;
use sha2::{Digest, Sha256};

const NONCE_BYTES: usize = 24;
/// The largest value.
pub const MAX_SECRET_BYTES: usize = 64 * 1024;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum VaultError {
    #[error("there is no key to seal secrets with: set secrets.key_file (or MAINSPRING_SECRETS_KEY_FILE)")]
    NoKey,
    #[error("secret `{0}` was sealed with another key: put that key back as a further line of secrets.key_file")]
    OtherKey(String),
    #[error("secret `{0}` does not open: it was changed or moved in the database")]
    Broken(String),
    #[error("a secret has at most {MAX_SECRET_BYTES} bytes")]
    TooLarge,
    #[error("the system has no randomness to give")]
    NoRandomness,
}

/// The keys that seal and open. Clones share them.
#[derive(Clone, Default)]
pub struct Vault {
    keys: Arc<Vec<(String, XChaCha20Poly1305)>>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.keys.iter().map(|(name, _)| name.as_str()).collect();
        out.debug_struct("Vault").field("keys", &names).finish()
    }
}

impl Vault {
    /// The first key seals; all of them open.
    pub fn new(keys: &[[u8; 32]]) -> Self {
        let keys = keys.iter().map(|key| (key_id(key), XChaCha20Poly1305::new(&Key::from(*key)))).collect();
        Self { keys: Arc::new(keys) }
    }

    pub fn seal(&self, namespace: &str, name: &str, value: &str) -> Result<SealedSecret, VaultError> {
        let (key_id, cipher) = self.keys.first().ok_or(VaultError::NoKey)?;
        if value.len() > MAX_SECRET_BYTES {
            return Err(VaultError::TooLarge);
        }
        let mut nonce = [0_u8; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| VaultError::NoRandomness)?;
        let bound = bound_to(namespace, name);
        let payload = Payload { msg: value.as_bytes(), aad: &bound };
        let sealed = cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| VaultError::TooLarge)?;
        let sealed = nonce.into_iter().chain(sealed).collect();
        Ok(SealedSecret { name: name.to_owned(), sealed, key_id: key_id.clone() })
    }

    pub(crate) fn open(&self, namespace: &str, secret: &SealedSecret) -> Result<String, VaultError> {
        let broken = || VaultError::Broken(secret.name.clone());
        let (_, cipher) = self
            .keys
            .iter()
            .find(|(key_id, _)| *key_id == secret.key_id)
            .ok_or_else(|| VaultError::OtherKey(secret.name.clone()))?;
        let (nonce, sealed) = secret.sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(broken)?;
        let bound = bound_to(namespace, &secret.name);
        let opened =
            cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: &bound }).map_err(|_| broken())?;
        String::from_utf8(opened).map_err(|_| broken())
    }

    pub fn has_key(&self) -> bool {
        !self.keys.is_empty()
    }
}

/// Lengths first, so that no two pairs of names are bound to the same bytes.
fn bound_to(namespace: &str, name: &str) -> Vec<u8> {
    format!("mainspring secret v1 {}:{namespace} {}:{name}", namespace.len(), name.len()).into_bytes()
}

/// An id of a key that reveals nothing about it.
fn key_id(key: &[u8; 32]) -> String {
    let mut digest = Sha256::new();
    digest.update(b"mainspring key id v1");
    digest.update(key);
    let whole: [u8; 32] = digest.finalize().into();
    whole[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_only_where_it_belongs() {
        let vault = Vault::new(&[[1; 32]]);
        let sealed = vault.seal("a", "K", "hunter2").unwrap();
        assert_eq!(vault.open("a", &sealed).unwrap(), "hunter2");
        assert!(!sealed.sealed.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(vault.open("b", &sealed), Err(VaultError::Broken("K".into())));
        let renamed = SealedSecret { name: "L".into(), ..sealed.clone() };
        assert_eq!(vault.open("a", &renamed), Err(VaultError::Broken("L".into())));
        for at in [0, NONCE_BYTES, sealed.sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed.sealed[at] ^= 1;
            assert!(vault.open("a", &changed).is_err(), "byte {at}");
        }
        assert_ne!(vault.seal("a", "K", "hunter2").unwrap().sealed, sealed.sealed, "nonces differ");
    }

    #[test]
    fn keys_are_changed_by_putting_the_new_one_first() {
        let old = Vault::new(&[[1; 32]]).seal("a", "K", "x").unwrap();
        let both = Vault::new(&[[2; 32], [1; 32]]);
        assert_eq!(both.open("a", &old).unwrap(), "x");
        assert_ne!(both.seal("a", "K", "x").unwrap().key_id, old.key_id);
        assert_eq!(Vault::new(&[[2; 32]]).open("a", &old), Err(VaultError::OtherKey("K".into())));
        assert_eq!(Vault::default().seal("a", "K", "x"), Err(VaultError::NoKey));
    }
}
