//! JSON Web Tokens of an external issuer.
//!
//! The algorithm is the one that the configuration names, whatever the token says: no `none`, and no public key taken
//! for a shared secret. The key is the one in the configured file: `kid`, `jku`, `x5u` are not looked at. `exp` is always
//! required; `aud` and `iss` are required when they are configured.
//!
//! Roles come from the claim `mainspring`: `[{"namespace": "*", "role": "viewer"}]`; a token without it may do nothing
//! but ask who it is.

use std::path::PathBuf;
use std::sync::Arc;

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::Verifier;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey, Validation, decode};
use ring::signature::{ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::identity::{Grant, Identity};

/// A shorter secret can be guessed from one token.
const SHORTEST_SECRET: usize = 32;
const LONGEST_SUBJECT: usize = 200;

/// How tokens are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtAlgorithm {
    Hs256,
    Rs256,
    EdDsa,
}

/// The requirements for a JSON Web Token.
#[derive(Debug, Clone)]
pub struct JwtSettings {
    pub algorithm: JwtAlgorithm,
    /// A secret (HS256) or a public key as PEM (RS256, EdDSA).
    pub key_file: PathBuf,
    /// `aud` must contain one of these. If empty, a token with `aud` is refused.
    pub audiences: Vec<String>,
    /// `iss` must be one of these. If empty, `iss` is not checked.
    pub issuers: Vec<String>,
    /// The allowed clock difference in seconds.
    pub leeway: u64,
}

#[derive(Clone)]
pub(crate) struct Jwt(Arc<Inner>);

struct Inner {
    key: DecodingKey,
    validation: Validation,
}

impl std::fmt::Debug for Jwt {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Jwt").field("algorithms", &self.0.validation.algorithms).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: f64,
    #[serde(default)]
    iss: Option<String>,
    #[serde(default, deserialize_with = "named")]
    mainspring: Vec<Grant>,
}

/// The end of the year 9999, in seconds.
const LATEST: f64 = 253_402_300_799.0;

/// Reads grants by the names of their fields, because serde also accepts a list of fields in order.
fn named<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Grant>, D::Error> {
    let read = |value: Value| match value {
        Value::Object(_) => serde_json::from_value(value).map_err(D::Error::custom),
        _ => Err(D::Error::custom("a grant is an object with `namespace` and `role`")),
    };
    Vec::<Value>::deserialize(from)?.into_iter().map(read).collect()
}

impl Jwt {
    /// Reads the key. The error names the fault of the file, never its content.
    pub(crate) fn new(settings: &JwtSettings) -> Result<Self, String> {
        // The first provider of a process stays; all of them are the same.
        _ = PROVIDER.install_default();
        let file = settings.key_file.display();
        let bytes = std::fs::read(&settings.key_file).map_err(|error| format!("{file} cannot be read: {error}"))?;
        let unfit = |what: &str| format!("{file} is not {what}");
        let (algorithm, key) = match settings.algorithm {
            JwtAlgorithm::Hs256 => {
                let secret = bytes.trim_ascii();
                if secret.starts_with(b"-----BEGIN") {
                    return Err(format!("{file} is a PEM file, but HS256 needs a shared secret that nobody else has"));
                }
                if secret.len() < SHORTEST_SECRET {
                    return Err(format!(
                        "{file} has {} bytes, but HS256 needs at least {SHORTEST_SECRET}",
                        secret.len()
                    ));
                }
                (Algorithm::HS256, DecodingKey::from_secret(secret))
            }
            JwtAlgorithm::Rs256 => {
                let key = DecodingKey::from_rsa_pem(&bytes).map_err(|_| unfit("an RSA public key as PEM"))?;
                (Algorithm::RS256, key)
            }
            JwtAlgorithm::EdDsa => {
                let key = DecodingKey::from_ed_pem(&bytes).map_err(|_| unfit("an Ed25519 public key as PEM"))?;
                (Algorithm::EdDSA, key)
            }
        };
        let mut validation = Validation::new(algorithm);
        let mut required = vec!["exp", "sub"];
        validation.leeway = settings.leeway;
        validation.validate_nbf = true;
        if !settings.audiences.is_empty() {
            validation.set_audience(&settings.audiences);
            required.push("aud");
        }
        if !settings.issuers.is_empty() {
            validation.set_issuer(&settings.issuers);
            required.push("iss");
        }
        validation.set_required_spec_claims(&required);
        Ok(Self(Arc::new(Inner { key, validation })))
    }

    /// The identity of a token; `None` if the token is invalid in any way.
    pub(crate) fn identify(&self, token: &str) -> Option<Identity> {
        let claims = match decode::<Claims>(token, &self.0.key, &self.0.validation) {
            Ok(decoded) => decoded.claims,
            Err(error) => {
                tracing::debug!(%error, "a JSON Web Token was refused");
                return None;
            }
        };
        // A time beyond all calendars is invalid.
        if claims.exp > LATEST {
            return None;
        }
        let plain =
            |text: &str| !text.is_empty() && text.len() <= LONGEST_SUBJECT && !text.chars().any(char::is_control);
        if !plain(&claims.sub) || claims.iss.as_deref().is_some_and(|issuer| !plain(issuer)) {
            return None;
        }
        // The issuer belongs to the name: two issuers may know two people by one subject.
        let actor = match &claims.iss {
            Some(issuer) => format!("jwt:{issuer}:{}", claims.sub),
            None => format!("jwt:{}", claims.sub),
        };
        Some(Identity { actor, name: claims.sub, grants: claims.mainspring })
    }
}

/// Verifies with the cryptography of the TLS library; signs nothing.
static PROVIDER: CryptoProvider =
    CryptoProvider { signer_factory: no_signer, verifier_factory: verifier, key_utils: KeyUtils::new_unimplemented() };

fn no_signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let family = match algorithm {
        Algorithm::HS256 => AlgorithmFamily::Hmac,
        Algorithm::RS256 => AlgorithmFamily::Rsa,
        Algorithm::EdDSA => AlgorithmFamily::Ed,
        _ => return Err(ErrorKind::InvalidAlgorithm.into()),
    };
    // A key of one family never verifies for another.
    if key.family() != family {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() }))
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), jsonwebtoken::signature::Error> {
        let verified = match (self.algorithm, self.key.kind()) {
            (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => {
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
                ring::hmac::verify(&key, message, signature)
            }
            (Algorithm::RS256, DecodingKeyKind::SecretOrDer(der)) => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der).verify(message, signature)
            }
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature)
            }
            _ => return Err(jsonwebtoken::signature::Error::new()),
        };
        verified.map_err(|_| jsonwebtoken::signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
