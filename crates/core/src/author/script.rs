//! Binds the expressions of a script to variables; for Python see [`python`].
//!
//! A value is never written into the script: each `${{ }}` becomes a reference to a variable, quoted so that the
//! value stays one word. Where the shell would not expand a variable (single quotes, a quoted here-document), or
//! would evaluate its value as code (arithmetic), binding is refused with what to write instead. If the reading of
//! the quotes is ever wrong, a reference is wrongly quoted; nothing is executed.

use crate::expr::{Part, split};

use super::command;
use super::python;
use super::quotes::{Context, Quotes};

/// What the variables are called, with a number behind.
pub(super) const VARIABLE: &str = "MAINSPRING_EXPR_";

/// A script whose expressions are variables.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bound<'t> {
    pub(super) script: String,
    /// In order of their numbers: the expression as written, and where it begins.
    pub(super) expressions: Vec<(&'t str, usize)>,
}

impl<'t> Bound<'t> {
    /// The number of an expression; the same one twice is one variable.
    pub(super) fn number(&mut self, source: &'t str, offset: usize) -> usize {
        match self.expressions.iter().position(|(known, _)| *known == source) {
            Some(number) => number,
            None => {
                self.expressions.push((source, offset));
                self.expressions.len() - 1
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) message: String,
    pub(super) help: String,
}

/// How an interpreter reads a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    /// Like a Bourne shell.
    Shell,
    Python,
    Other,
}

fn language(shell: Option<&str>) -> Language {
    let Some(shell) = shell else { return Language::Shell };
    let mut words = shell.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let program = match words.next() {
        Some("env") => words.next(),
        program => program,
    };
    match program {
        Some("sh" | "bash" | "dash" | "ash" | "ksh" | "zsh") => Language::Shell,
        Some(program) if program.strip_prefix("python").is_some_and(is_version) => Language::Python,
        _ => Language::Other,
    }
}

fn is_version(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Binds every expression, or says at which and why that is impossible; all of them at once.
pub(super) fn bind<'t>(script: &'t str, shell: Option<&str>) -> Result<Bound<'t>, Vec<Refused>> {
    let parts = split(script).map_err(|offset| {
        vec![Refused {
            offset,
            length: 3,
            message: "`${{` is never closed".into(),
            help: "end the expression with `}}`".into(),
        }]
    })?;
    let mut bound = Bound { script: String::with_capacity(script.len()), expressions: Vec::new() };
    let mut refused = Vec::new();
    let language = language(shell);
    if language == Language::Python {
        return python::bind(script, &parts);
    }
    let mut quotes = Quotes::default();
    for part in parts {
        match part {
            Part::Text(text) => {
                quotes.read(text);
                bound.script.push_str(text);
            }
            Part::Expression { source, start, offset, end } => {
                let length = script[start..end].chars().count();
                let mut refuse = |message: &str, help: &str| {
                    refused.push(Refused { offset: start, length, message: message.into(), help: help.into() });
                };
                if language == Language::Other {
                    refuse(
                        "an expression in a script of this interpreter cannot be bound to a variable",
                        "put it in `env` and read it from the environment",
                    );
                    continue;
                }
                let context = quotes.context();
                if context == Context::Comment {
                    bound.script.push_str(&script[start..end]);
                    continue;
                }
                if let Some(program) = command::evaluates(&script[..start]) {
                    refuse(
                        &format!("`{program}` would execute the value as code"),
                        "pass it as an argument: `bash -c 'echo \"$1\"' _ ${{ … }}`",
                    );
                    continue;
                }
                if let Some((message, help)) = obstacle(context) {
                    refuse(message, help);
                    continue;
                }
                let quote = if context == Context::Bare { "\"" } else { "" };
                let number = bound.number(source, offset);
                bound.script.push_str(&format!("{quote}${{{VARIABLE}{number}}}{quote}"));
                quotes.wrote_word();
            }
        }
    }
    if refused.is_empty() { Ok(bound) } else { Err(refused) }
}

/// Why an expression has no value in this context, and what to write instead; `None` where it has one.
fn obstacle(context: Context) -> Option<(&'static str, &'static str)> {
    match context {
        Context::Single => Some((
            "inside single quotes the shell expands no variable, so an expression has no value here",
            "use double quotes",
        )),
        Context::QuotedHeredoc => Some((
            "in a here-document with a quoted delimiter the shell expands no variable",
            "remove the quotes around the delimiter",
        )),
        Context::Arithmetic => Some((
            "inside arithmetic or `${…}` the shell would evaluate the value as code",
            "assign it to a variable first: `name=${{ … }}`",
        )),
        Context::Escaped => {
            Some(("the backslash before this expression would escape the variable it becomes", "remove the backslash"))
        }
        Context::Comment | Context::Double | Context::Heredoc | Context::Bare => None,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn check(script: &str, expected: &str) {
        let bound = bind(script, None).unwrap_or_else(|refused| panic!("{script}: {refused:?}"));
        assert_eq!(bound.script.replace("MAINSPRING_EXPR_", ""), expected, "{script}");
    }

    fn check_refused(script: &str, offset: usize, cause: &str) {
        let refused = bind(script, None).expect_err(script);
        assert_eq!(refused[0].offset, offset, "{script}");
        assert!(refused[0].message.contains(cause), "{script}: {}", refused[0].message);
    }

    #[test]
    fn references_are_quoted_as_their_place_demands() {
        check("echo ${{ a }}", "echo \"${0}\"");
        check("echo \"x ${{ a }} y\"", "echo \"x ${0} y\"");
        check("echo ${{ a }} ${{ b }} \"${{ a }}\"", "echo \"${0}\" \"${1}\" \"${0}\"");
        check("x=${{ a }}/y", "x=\"${0}\"/y");
        check("echo \"$(echo ${{ a }}) ${{ b }}\"", "echo \"$(echo \"${0}\") ${1}\"");
        check("echo \"$(echo \"${{ a }}\")\"", "echo \"$(echo \"${0}\")\"");
        check("echo `echo ${{ a }}` ${{ b }}", "echo `echo \"${0}\"` \"${1}\"");
        check("echo 'it' ${{ a }}", "echo 'it' \"${0}\"");
        check("echo it\\'s ${{ a }}", "echo it\\'s \"${0}\"");
        check("echo ${X:-'} ${{ a }}", "echo ${X:-'} \"${0}\"");
        check("(cd ${{ a }}; ls) && ls ${{ b }}", "(cd \"${0}\"; ls) && ls \"${1}\"");
        check("echo $((1 + 2)) ${{ a }}", "echo $((1 + 2)) \"${0}\"");
        check("case $x in a) echo ${{ a }};; esac", "case $x in a) echo \"${0}\";; esac");
    }

    #[test]
    fn comments_hold_no_references() {
        check("# it's ${{ a }}\necho ${{ b }}", "# it's ${{ a }}\necho \"${0}\"");
        check("echo a#b ${{ a }}", "echo a#b \"${0}\"");
        check("echo $# ${{ a }}", "echo $# \"${0}\"");
        check("echo ${#x} ${{ a }}", "echo ${#x} \"${0}\"");
    }

    #[test]
    fn here_documents_are_followed() {
        check("cat <<EOF\nit's ${{ a }}\nEOF\necho ${{ b }}", "cat <<EOF\nit's ${0}\nEOF\necho \"${1}\"");
        check("cat <<-EOF\n\t${{ a }}\n\tEOF\necho ${{ b }}", "cat <<-EOF\n\t${0}\n\tEOF\necho \"${1}\"");
        check("cat <<A <<B\nx\nA\n${{ a }}\nB\necho ${{ b }}", "cat <<A <<B\nx\nA\n${0}\nB\necho \"${1}\"");
        check("cat <<<${{ a }}", "cat <<<\"${0}\"");
        check("cat <<'EOF'\nx\nEOF\necho ${{ b }}", "cat <<'EOF'\nx\nEOF\necho \"${0}\"");
        check_refused("cat <<'EOF'\n${{ a }}\nEOF", 12, "quoted delimiter");
        check_refused("cat <<\\EOF\n${{ a }}\nEOF", 11, "quoted delimiter");
    }

    #[test]
    fn impossible_places_are_refused() {
        check_refused("echo '${{ a }}'", 6, "single quotes");
        check_refused("echo $'${{ a }}'", 7, "single quotes");
        check_refused("echo $((${{ a }} + 1))", 8, "as code");
        check_refused("(( x = ${{ a }} ))", 7, "as code");
        check_refused("echo ${x[${{ a }}]}", 9, "as code");
        check_refused("echo \\${{ a }}", 6, "backslash");
        check_refused("echo ${{ a", 5, "never closed");
        check_refused("eval ${{ a }}", 5, "`eval` would execute");
        check_refused("x=1; eval \"run ${{ a }}\"", 15, "`eval` would execute");
        check_refused("bash -c \"cd /tmp; ls ${{ a }}\"", 21, "`bash -c` would execute");
        check_refused("sudo /bin/sh -ec ${{ a }}", 17, "`sh -ec` would execute");
        check_refused("x=$(bash -lc \"ls ${{ a }}\")", 17, "`bash -lc` would execute");
        check_refused("python3 -c \"print(${{ a }})\"", 18, "`python3 -c` would execute");
        check("bash -c 'echo \"$1\"' _ ${{ a }}", "bash -c 'echo \"$1\"' _ \"${0}\"");
        check("evaluate ${{ a }}; echo eval ${{ b }}", "evaluate \"${0}\"; echo eval \"${1}\"");
        check("gcc -c ${{ a }}", "gcc -c \"${0}\"");
        assert!(bind("puts(${{ a }})", Some("ruby")).is_err());
        assert!(bind("x(${{ a }})", Some("pythonic")).is_err());
        assert!(bind("print(1)", Some("python3")).is_ok());
        assert!(bind("echo ${{ a }}", Some("/bin/bash -eu")).is_ok());
    }

    /// Hostile values arrive whole, as one word, and nothing of them is executed.
    #[test]
    fn values_stay_values_in_a_real_shell() {
        let hostile = [
            "; echo HACKED",
            "$(echo HACKED)",
            "`echo HACKED`",
            "\" ; echo HACKED; \"",
            "' ; echo HACKED; '",
            "${IFS}x$$",
            "a  b\nc\td",
            "*",
            "-n",
            "\\",
            "!!",
            "EOF",
            "${{ a }}",
            "}",
            ")",
        ];
        let scripts = [
            "printf '<%s>' ${{ a }}",
            "printf '<%s>' \"${{ a }}\"",
            "printf '<%s>' \"$(printf '%s.' ${{ a }})\" | sed 's/[.]>$/>/'",
            "x=${{ a }}; printf '<%s>' \"$x\"",
            "printf '<'; cat <<END\n${{ a }}\nEND\nprintf '>'",
            "f() { printf '<%s>' \"$1\"; }; f ${{ a }}",
        ];
        for shell in ["sh", "bash"] {
            for script in scripts {
                for value in hostile {
                    let bound = bind(script, Some(shell)).unwrap();
                    let output = Command::new(shell)
                        .args(["-c", &bound.script])
                        .env("MAINSPRING_EXPR_0", value)
                        .output()
                        .unwrap();
                    let printed = String::from_utf8(output.stdout).unwrap();
                    let expected = format!("<{value}>");
                    assert_eq!(printed.replace("\n>", ">"), expected, "{shell}: {script} with {value:?}");
                    assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{shell}: {script} with {value:?}");
                }
            }
        }
    }
}
