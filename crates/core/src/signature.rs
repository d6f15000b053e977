//! Signatures of messages: HMAC with SHA-256 (RFC 2104).

use sha2::{Digest, Sha256};

const BLOCK: usize = 64;

pub fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0_u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

/// The value of `X-Mainspring-Signature`.
pub fn signature(secret: &str, body: &[u8]) -> String {
    let hex: String = hmac_sha256(secret.as_bytes(), body).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases 1, 2 and 6 of RFC 4231.
    #[test]
    fn the_signature_is_the_published_one() {
        assert_eq!(
            signature("Jefe", b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let first = hmac_sha256(&[0x0b; 20], b"Hi There");
        assert_eq!(first[..4], [0xb0, 0x34, 0x4c, 0x61]);
        let long = hmac_sha256(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(long[..4], [0x60, 0xe4, 0x31, 0x59]);
    }
}
