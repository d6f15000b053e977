//! How deep an expression is.
//!
//! MiniJinja bounds brackets, but goes one call deeper for every sign, `not`, filter and operator in a row: thousands of
//! them, which fit into an expression, would use up the stack and end the process. So they are counted before it sees them.

/// Operators, filters, attributes and brackets that may stand within each other.
pub(super) const MAX_DEPTH: usize = 200;

const WORDS: [&str; 7] = ["and", "or", "not", "in", "is", "if", "else"];

/// Refuses what is deeper than [`MAX_DEPTH`]; a bound, not a measure: operators beside each other count as nested, which
/// chains of them are.
pub(super) fn check(source: &str) -> Result<(), String> {
    let bytes = source.as_bytes();
    // The operators of the part that is being read, for each bracket that is open.
    let mut parts = vec![0_usize];
    let mut total = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at += 1;
        let step = match bytes[start] {
            quote @ (b'"' | b'\'') => {
                at = super::template::string_length(&bytes[start..], quote)
                    .map_or(bytes.len(), |length| start + length + 1);
                false
            }
            b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                at = start + bytes[start..].iter().take_while(|byte| is_word(byte)).count();
                WORDS.contains(&&source[start..at])
            }
            b',' => {
                total -= parts.last_mut().map_or(0, std::mem::take);
                false
            }
            b')' | b']' | b'}' if parts.len() > 1 => {
                total -= parts.pop().unwrap_or(0);
                false
            }
            byte => !byte.is_ascii_whitespace() && byte.is_ascii(),
        };
        if step {
            total += 1;
            if let Some(part) = parts.last_mut() {
                *part += 1;
            }
        }
        if matches!(bytes[start], b'(' | b'[' | b'{') {
            parts.push(0);
        }
        if total > MAX_DEPTH {
            return Err(format!("the expression nests more than {MAX_DEPTH} operators: compute that in a task"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_counted_and_lists_are_not() {
        for piece in [
            "-",
            "not ",
            "+",
            "1+",
            "1 if 1 else ",
            "x|upper",
            ".a",
            "(",
            "[",
            "{'a':",
            "1+(",
            "f(x)",
            "1 ** ",
            "1 and ",
        ] {
            assert!(check(&piece.repeat(1_000)).is_err(), "{piece}");
            assert!(check(&piece.repeat(20)).is_ok(), "{piece}");
        }
        assert!(check(&format!("[{}]", "inputs.a, -1, 'x - - -', ".repeat(150))).is_ok());
        assert!(check(&format!("'{}'", "-".repeat(4_000))).is_ok());
        assert!(check("))))}}]]").is_ok());
    }
}
