//! Cuts a text into what is literal and what stands inside `${{ }}`.

/// A piece of a template. Offsets are bytes in the whole text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'t> {
    Text(&'t str),
    /// The expression without its braces.
    Expression {
        source: &'t str,
        /// Where `${{` begins.
        start: usize,
        /// Where the expression begins, white space skipped.
        offset: usize,
        /// Behind `}}`.
        end: usize,
    },
}

pub(crate) fn has_expression(text: &str) -> bool {
    text.contains("${{")
}

/// The parts in order. The error is the offset of a `${{` that is never closed.
pub(crate) fn split(text: &str) -> Result<Vec<Part<'_>>, usize> {
    let mut parts = Vec::new();
    let mut rest = 0;
    while let Some(found) = text[rest..].find("${{") {
        let start = rest + found;
        if start > rest {
            parts.push(Part::Text(&text[rest..start]));
        }
        let inner = start + 3;
        let close = find_close(&text[inner..]).ok_or(start)? + inner;
        let source = text[inner..close].trim();
        let offset = inner + (text[inner..close].len() - text[inner..close].trim_start().len());
        parts.push(Part::Expression { source, start, offset, end: close + 2 });
        rest = close + 2;
    }
    if rest < text.len() {
        parts.push(Part::Text(&text[rest..]));
    }
    Ok(parts)
}

/// Finds the `}}` that ends an expression: not one inside a string, nor the end of two nested mappings.
fn find_close(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            quote @ (b'"' | b'\'') => at += string_length(&bytes[at..], quote)?,
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b'}' if bytes.get(at + 1) == Some(&b'}') => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// How far the closing quote lies behind the opening one.
pub(super) fn string_length(bytes: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == quote => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// A condition may be written with or without `${{ }}` around it. Gives the expression and where it begins.
pub(crate) fn strip_braces(text: &str) -> (&str, usize) {
    let trimmed = text.trim();
    let lead = text.len() - text.trim_start().len();
    if let Ok(parts) = split(trimmed)
        && let [Part::Expression { source, offset, .. }] = parts[..]
    {
        return (source, lead + offset);
    }
    (trimmed, lead)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[&str], usize>) {
        let parts = split(text).map(|parts| {
            parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => format!("text {text}"),
                    Part::Expression { source, .. } => format!("expr {source}"),
                })
                .collect::<Vec<_>>()
        });
        assert_eq!(parts, expected.map(|list| list.iter().map(|text| (*text).to_owned()).collect()), "{text}");
    }

    #[test]
    fn texts_are_cut_at_their_expressions() {
        check("", Ok(&[]));
        check("plain {{ x }}", Ok(&["text plain {{ x }}"]));
        check("${{ a }}", Ok(&["expr a"]));
        check("x ${{a}}-${{ b }} y", Ok(&["text x ", "expr a", "text -", "expr b", "text  y"]));
        check("${{ '}}' ~ \"\\\"}}\" }}!", Ok(&["expr '}}' ~ \"\\\"}}\"", "text !"]));
        check("${{ {'a': {'b': 1}} }}", Ok(&["expr {'a': {'b': 1}}"]));
        check("${{ '${{ x }}' }}", Ok(&["expr '${{ x }}'"]));
        check("ab ${{ a", Err(3));
        check("${{ 'a }}", Err(0));
    }

    #[test]
    fn braces_around_a_condition_are_optional() {
        assert_eq!(strip_braces(" a > 1 "), ("a > 1", 1));
        assert_eq!(strip_braces("${{ a > 1 }}"), ("a > 1", 4));
        assert_eq!(strip_braces("${{ a }} > ${{ b }}").0, "${{ a }} > ${{ b }}");
    }
}
