//! The words of an interpreter, as an author writes them: `python3 -u`, `"/opt/my tools/perl" -w`.

/// Splits at blanks; quotes keep blanks together. Nothing is expanded and no other character means anything, so that a
/// value never becomes a command.
pub(super) fn split(text: &str) -> Result<Vec<String>, String> {
    if text.contains('\0') {
        return Err("it contains a NUL character".into());
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    if let Some(open) = quote {
        return Err(format!("the quote {open} is never closed"));
    }
    words.extend(word);
    match words.first() {
        None => Err("it is empty".into()),
        Some(program) if program.is_empty() => Err("its program is empty".into()),
        Some(_) => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_blanks_outside_quotes() {
        for (text, expected) in [
            ("python3", Some(vec!["python3"])),
            ("  perl   -w ", Some(vec!["perl", "-w"])),
            ("/usr/bin/env\tnode", Some(vec!["/usr/bin/env", "node"])),
            ("'/opt/my tools/x' \"a 'b'\" ''", Some(vec!["/opt/my tools/x", "a 'b'", ""])),
            ("a\"b c\"d", Some(vec!["ab cd"])),
            ("bash; rm -rf $HOME", Some(vec!["bash;", "rm", "-rf", "$HOME"])),
            ("'open", None),
            ("", None),
            ("''", None),
            ("a\0b", None),
        ] {
            let expected = expected.map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(split(text).ok(), expected, "{text:?}");
        }
    }
}
