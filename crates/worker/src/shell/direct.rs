//! Recognises scripts that are a single plain command, which needs no shell to start it.
//!
//! Starting bash costs more than most small commands do. As `make` does, a script of nothing but ordinary words is
//! executed as the program it names, with the same result: `bash -c` would replace itself by that program anyway.

/// Words that the shell itself understands. `true` and `false` are missing on purpose: the programs do the same.
const SHELL_WORDS: &[&str] = &[
    ".",
    ":",
    "[",
    "[[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

/// The words of a plain command; `None` if a shell must read the script.
pub(super) fn plain_command(script: &str) -> Option<Vec<&str>> {
    let script = script.trim_matches([' ', '\n', '\t']);
    if script.is_empty() || script.len() > 1_000 {
        return None;
    }
    let ordinary = |byte: u8| byte.is_ascii_alphanumeric() || b" _./:,@%+=-".contains(&byte);
    if !script.bytes().all(ordinary) {
        return None;
    }
    let words: Vec<_> = script.split(' ').filter(|word| !word.is_empty()).collect();
    let first = words.first()?;
    if first.contains('=') || first.starts_with(['-', '%']) || SHELL_WORDS.binary_search(first).is_ok() {
        return None;
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(SHELL_WORDS.is_sorted());
    }

    #[test]
    fn only_plain_commands_go_without_a_shell() {
        for (script, words) in [
            ("true", Some(vec!["true"])),
            (" true \n", Some(vec!["true"])),
            ("sleep 1.5", Some(vec!["sleep", "1.5"])),
            ("/usr/bin/env  A=b", Some(vec!["/usr/bin/env", "A=b"])),
            ("", None),
            ("A=b env", None),
            ("exit 3", None),
            ("echo hello", None),
            ("true\nfalse", None),
            ("ls *", None),
            ("ls ~", None),
            ("ls $HOME", None),
            ("ls 'a b'", None),
            ("true; false", None),
            ("true # comment", None),
            ("true | cat", None),
            ("true > file", None),
            ("{ true", None),
            ("! true", None),
            ("ls \\a", None),
            ("true\tx", None),
            ("-x", None),
            ("%1", None),
        ] {
            assert_eq!(plain_command(script), words, "{script:?}");
        }
    }
}
