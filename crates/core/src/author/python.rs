//! Binds the expressions of a Python script to variables.
//!
//! Each becomes a look into the environment, which is an expression of the language: it may stand wherever a value
//! may. Inside a string literal it would be letters, so there it is refused.

use crate::expr::Part;

use super::script::{Bound, Refused, VARIABLE};

/// `parts` are those of the script.
pub(super) fn bind<'t>(script: &'t str, parts: &[Part<'t>]) -> Result<Bound<'t>, Vec<Refused>> {
    let mut bound = Bound { script: String::with_capacity(script.len()), expressions: Vec::new() };
    let mut refused = Vec::new();
    let mut strings = Strings::default();
    for part in parts {
        match *part {
            Part::Text(text) => {
                strings.read(text);
                bound.script.push_str(text);
            }
            Part::Expression { start, end, .. } if strings.comment => bound.script.push_str(&script[start..end]),
            Part::Expression { start, end, .. } if strings.open.is_some() => refused.push(Refused {
                offset: start,
                length: script[start..end].chars().count(),
                message: "inside a string of Python an expression would be letters, not a value".into(),
                help: "end the string before it: `\"hello \" + ${{ … }}`".into(),
            }),
            Part::Expression { source, offset, .. } => {
                let number = bound.number(source, offset);
                bound.script.push_str(&format!("__import__(\"os\").environ[\"{VARIABLE}{number}\"]"));
            }
        }
    }
    if refused.is_empty() { Ok(bound) } else { Err(refused) }
}

/// Follows string literals and comments.
#[derive(Debug, Default)]
struct Strings {
    /// What ends the literal that is open.
    open: Option<&'static str>,
    comment: bool,
}

impl Strings {
    fn read(&mut self, text: &str) {
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let width = next.len_utf8();
            let step = match self.open {
                _ if self.comment => {
                    self.comment = next != '\n';
                    width
                }
                Some(_) if next == '\\' => width + rest[width..].chars().next().map_or(0, char::len_utf8),
                Some(end) if rest.starts_with(end) => {
                    self.open = None;
                    end.len()
                }
                // A literal with one quote cannot go on in the next line.
                Some(end) if next == '\n' && end.len() == 1 => {
                    self.open = None;
                    width
                }
                Some(_) => width,
                None if next == '#' => {
                    self.comment = true;
                    width
                }
                None => match ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(*quote)) {
                    Some(quote) => {
                        self.open = Some(quote);
                        quote.len()
                    }
                    None => width,
                },
            };
            rest = &rest[step..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::bind;

    fn check(script: &str, expected: &str) {
        let bound =
            bind(script, Some("/usr/bin/env python3.12 -u")).unwrap_or_else(|refused| panic!("{script}: {refused:?}"));
        let shown = bound.script.replace("__import__(\"os\").environ[\"MAINSPRING_EXPR_", "<").replace("\"]", ">");
        assert_eq!(shown, expected, "{script}");
    }

    #[test]
    fn values_are_looked_up() {
        check("print(${{ a }}, ${{ b }}, ${{ a }})", "print(<0>, <1>, <0>)");
        check("x = 'it' + ${{ a }}", "x = 'it' + <0>");
        check("# don't ${{ a }}\nx = ${{ b }}", "# don't ${{ a }}\nx = <0>");
        check("'a\\' b' + ${{ a }}", "'a\\' b' + <0>");
        check("\"\"\"it's # \"\"\" + ${{ a }}", "\"\"\"it's # \"\"\" + <0>");
        check("x = '#' + ${{ a }}", "x = '#' + <0>");
    }

    #[test]
    fn strings_hold_no_values() {
        for (script, offset) in
            [("print('${{ a }}')", 7), ("f\"{${{ a }}}\"", 3), ("'''\n${{ a }}'''", 4), ("x = 1 # y\n\"${{ a }}\"", 11)]
        {
            let refused = bind(script, Some("python3")).expect_err(script);
            assert_eq!((refused.len(), refused[0].offset), (1, offset), "{script}");
        }
    }
}
