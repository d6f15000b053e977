//! Variables from files: `NAME=value` lines, as many programs read them.
//!
//! A value may stand in single quotes, which keep it as it is, or in double quotes, where a backslash escapes. Nothing is expanded: what looks like a variable stays what it is.

use std::path::Path;

use mainspring_core::work::Failure;

/// The largest file of variables, in bytes.
const LIMIT: u64 = 1024 * 1024;

/// The variables of all files, in order.
pub(super) fn read_all(directory: Option<&Path>, files: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut variables = Vec::new();
    for file in files {
        let path =
            directory.map(|directory| directory.join(file)).ok_or_else(|| refused(file, "it did not come along"))?;
        let size = path.metadata().map_err(|error| refused(file, &error.to_string()))?.len();
        if size > LIMIT {
            return Err(refused(file, "it is larger than 1 MiB"));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| refused(file, &error.to_string()))?;
        for (number, line) in text.lines().enumerate() {
            let found = variable(line).map_err(|why| refused(file, &format!("line {}: {why}", number + 1)))?;
            variables.extend(found);
        }
    }
    Ok(variables)
}

/// `None` for an empty line or a comment.
fn variable(line: &str) -> Result<Option<(String, String)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').ok_or("it is not `NAME=value`")?;
    let name = name.trim();
    let is_name = !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err("the name of a variable has letters, digits and `_`, and does not begin with a digit");
    }
    if name.starts_with("MAINSPRING_") {
        return Err("variables beginning with MAINSPRING_ are set for the task");
    }
    if value.contains('\0') {
        return Err("the value contains a NUL character");
    }
    Ok(Some((name.to_owned(), unquoted(value.trim())?)))
}

fn unquoted(value: &str) -> Result<String, &'static str> {
    const OPEN: &str = "the quoted value is never closed";
    if let Some(rest) = value.strip_prefix('\'') {
        let (inside, behind) = rest.split_once('\'').ok_or(OPEN)?;
        return rest_is_comment(behind).map(|()| inside.to_owned());
    }
    let Some(rest) = value.strip_prefix('"') else {
        // A comment begins behind a space.
        let end = value.find(" #").unwrap_or(value.len());
        return Ok(value[..end].trim_end().to_owned());
    };
    let mut text = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return rest_is_comment(&rest[at + 1..]).map(|()| text),
            '\\' => match characters.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, escaped @ ('"' | '\\' | '$' | '`'))) => text.push(escaped),
                Some((_, other)) => text.extend(['\\', other]),
                None => return Err(OPEN),
            },
            other => text.push(other),
        }
    }
    Err(OPEN)
}

fn rest_is_comment(rest: &str) -> Result<(), &'static str> {
    match rest.trim() {
        "" => Ok(()),
        comment if comment.starts_with('#') => Ok(()),
        _ => Err("something stands behind the quoted value"),
    }
}

fn refused(file: &str, why: &str) -> Failure {
    let message = format!("the variables of `{file}` cannot be read: {why}");
    Failure { kind: "files".into(), message, permanent: true, ..Failure::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_people_write_them() {
        for (line, expected) in [
            ("A=1", Some(("A", "1"))),
            ("export PATH_2 = /bin:/usr/bin # where", Some(("PATH_2", "/bin:/usr/bin"))),
            ("A=", Some(("A", ""))),
            ("A='it is $HOME # not'", Some(("A", "it is $HOME # not"))),
            (r#"A="one\ntwo \"x\" \$HOME" # comment"#, Some(("A", "one\ntwo \"x\" $HOME"))),
            ("A=b#c", Some(("A", "b#c"))),
            ("  # comment", None),
            ("", None),
        ] {
            let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(variable(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_is_no_variable_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        for (text, why) in [
            ("A=1\nnothing", "line 2: it is not `NAME=value`"),
            ("1A=2", "does not begin with a digit"),
            ("MAINSPRING_RUN_ID=x", "are set for the task"),
            ("A='x", "never closed"),
            ("A=\"x\" y", "stands behind"),
        ] {
            std::fs::write(folder.path().join(".env"), text).unwrap();
            let failure = read_all(Some(folder.path()), &[".env".into()]).unwrap_err();
            assert!(failure.message.contains(why), "{text}: {}", failure.message);
        }
        let failure = read_all(Some(folder.path()), &["missing".into()]).unwrap_err();
        assert!(failure.message.contains("`missing`"), "{}", failure.message);
    }
}
