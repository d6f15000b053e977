//! Checked names.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A name as everywhere: `^[a-z0-9][a-z0-9_.-]{0,127}$`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[a-z0-9][a-z0-9_.-]{0,127}$", example = "default")]
pub struct Name(String);

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let starts = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = text.len() <= 128
            && text.bytes().next().is_some_and(starts)
            && text.bytes().all(|byte| starts(byte) || matches!(byte, b'_' | b'.' | b'-'));
        if fits {
            return Ok(Self(text));
        }
        let shown: String = text.chars().take(40).flat_map(char::escape_default).collect();
        Err(format!(
            "`{shown}` is not a name: names begin with a-z or 0-9, go on with a-z 0-9 _ . - and have at most 128 characters"
        ))
    }
}

/// As workflows name a secret: a letter or `_`, then letters, digits and `_`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[A-Za-z_][A-Za-z0-9_]{0,127}$", example = "API_KEY")]
pub struct SecretName(String);

impl From<SecretName> for String {
    fn from(name: SecretName) -> Self {
        name.0
    }
}

impl TryFrom<String> for SecretName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let starts = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        let fits = text.len() <= 128
            && text.bytes().next().is_some_and(starts)
            && text.bytes().all(|byte| starts(byte) || byte.is_ascii_digit());
        match fits {
            true => Ok(Self(text)),
            false => {
                Err("a secret's name begins with a letter or _, goes on with letters, digits and _, and has at most \
                          128 characters"
                    .into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_are_plain() {
        let long = "x".repeat(129);
        for wrong in ["", ".x", "-x", "X", "a/b", "a b", "ä", "a\u{202e}b", "a\u{200b}", "a\0", "..", "%2f", &long] {
            assert!(Name::try_from(wrong.to_owned()).is_err(), "{wrong:?}");
        }
        for right in ["a", "0", "a.b-c_d", &"x".repeat(128)] {
            assert!(Name::try_from(right.to_owned()).is_ok(), "{right:?}");
        }
    }
}
