//! Reads what a script wrote to `$MAINSPRING_OUTPUT`.
//!
//! Two ways of writing: a JSON object, or lines `key=value` (the value is a text), among them
//! `key<<END … END` for values of several lines. A later key wins.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use mainspring_core::workflow::OutputFrom;
use nix::fcntl::OFlag;
use serde_json::{Map, Value};

use crate::text::first_characters;

/// The largest output of a task, in bytes.
pub const OUTPUT_LIMIT: u64 = 1024 * 1024;

/// Why an output cannot be accepted.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error(
        "the output of {0} bytes is larger than 1 MiB (1048576 bytes); write large data elsewhere and output its place"
    )]
    TooLarge(u64),
    #[error("$MAINSPRING_OUTPUT is no longer a regular file")]
    NotAFile,
    #[error("the output is not UTF-8 (byte {0})")]
    NotText(usize),
    #[error("the output begins like a JSON object but is none: {0}")]
    Json(serde_json::Error),
    #[error("line {line} of the output is neither `key=value` nor `key<<END`: `{text}`")]
    Line { line: usize, text: String },
    #[error("line {line} of the output begins a value with `<<{end}` that no line `{end}` ends")]
    Unterminated { line: usize, end: String },
    #[error("`output: json`, but what was printed is not JSON: {0}")]
    PrintedJson(serde_json::Error),
    #[error("`output: json`, but nothing was printed")]
    PrintedNothing,
    #[error("what was printed is no JSON object, so $MAINSPRING_OUTPUT cannot add to it; use one of the two")]
    Both,
    #[error("cannot read $MAINSPRING_OUTPUT: {0}")]
    Read(#[from] std::io::Error),
}

/// Reads the file if the task made one; never more than the limit, whatever its size.
pub(crate) fn read_output(path: &Path) -> Result<Option<Value>, OutputError> {
    // A task can leave anything under this name: a symbolic link or a pipe must neither lead astray nor block.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32) => {
            return Err(OutputError::NotAFile);
        }
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(OutputError::NotAFile);
    }
    if metadata.len() > OUTPUT_LIMIT {
        return Err(OutputError::TooLarge(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(OUTPUT_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > OUTPUT_LIMIT {
        return Err(OutputError::TooLarge(bytes.len() as u64));
    }
    // The stores cannot hold NUL.
    bytes.retain(|byte| *byte != 0);
    let text = std::str::from_utf8(&bytes).map_err(|error| OutputError::NotText(error.valid_up_to()))?;
    parse_output(text)
}

/// The output of a script: what it wrote to the file, with what it printed if that counts too. Keys of the file win.
pub(crate) fn complete_output(
    from: OutputFrom,
    file: Option<Value>,
    printed: Option<Vec<u8>>,
) -> Result<Option<Value>, OutputError> {
    let Some(mut printed) = printed.filter(|_| from != OutputFrom::File) else { return Ok(file) };
    if printed.len() as u64 > OUTPUT_LIMIT {
        return Err(OutputError::TooLarge(printed.len() as u64));
    }
    printed.retain(|byte| *byte != 0);
    let text = std::str::from_utf8(&printed).map_err(|error| OutputError::NotText(error.valid_up_to()))?;
    let mut output = match from {
        OutputFrom::Json if text.trim().is_empty() => return Err(OutputError::PrintedNothing),
        OutputFrom::Json => serde_json::from_str(text).map_err(OutputError::PrintedJson)?,
        _ => Value::Object(Map::from_iter([("stdout".to_owned(), text.trim_end_matches(['\n', '\r']).into())])),
    };
    match (&mut output, file) {
        (_, None) => {}
        (Value::Object(fields), Some(Value::Object(written))) => fields.extend(written),
        _ => return Err(OutputError::Both),
    }
    Ok(Some(output))
}

/// `None` if nothing was written.
pub fn parse_output(text: &str) -> Result<Option<Value>, OutputError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(None);
    }
    if text.trim_start().starts_with('{') {
        let object: Map<String, Value> = serde_json::from_str(text).map_err(OutputError::Json)?;
        return Ok(Some(Value::Object(object)));
    }
    let mut fields = Map::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        let (key, value) = match (line.find("<<"), line.find('=')) {
            (Some(heredoc), equals) if equals.is_none_or(|equals| heredoc < equals) => {
                let end = &line[heredoc + 2..];
                (&line[..heredoc], read_heredoc(&mut lines, index + 1, end)?)
            }
            (_, Some(equals)) => (&line[..equals], line[equals + 1..].to_owned()),
            _ => return Err(bad_line(index + 1, line)),
        };
        let key = key.trim();
        if key.is_empty() {
            return Err(bad_line(index + 1, line));
        }
        fields.insert(key.to_owned(), Value::String(value));
    }
    Ok(Some(Value::Object(fields)))
}

fn read_heredoc<'a>(
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
    line: usize,
    end: &str,
) -> Result<String, OutputError> {
    let unterminated = || OutputError::Unterminated { line, end: first_characters(end.trim(), 80).to_owned() };
    if end.trim().is_empty() {
        return Err(unterminated());
    }
    let mut value = String::new();
    for (position, (_, text)) in lines.enumerate() {
        if text == end.trim() {
            return Ok(value);
        }
        if position > 0 {
            value.push('\n');
        }
        value.push_str(text);
    }
    Err(unterminated())
}

fn bad_line(line: usize, text: &str) -> OutputError {
    OutputError::Line { line, text: first_characters(text, 80).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(parse_output(text).unwrap(), Some(expected), "{text:?}");
    }

    #[test]
    fn outputs_are_lines_or_an_object() {
        check("rows=3\n", json!({"rows": "3"}));
        check("a=1\nb=2", json!({"a": "1", "b": "2"}));
        check("a=1\r\nb=2\r\n", json!({"a": "1", "b": "2"}));
        check("\n\na=x=y\n\n", json!({"a": "x=y"}));
        check("a=\n", json!({"a": ""}));
        check("a=1\na=2\n", json!({"a": "2"}));
        check(" a = 1 \n", json!({"a": " 1 "}));
        check("url=http://x/<<y\n", json!({"url": "http://x/<<y"}));
        check("text<<EOF\none\n\nthree\nEOF\nnext=1\n", json!({"text": "one\n\nthree", "next": "1"}));
        check("text<<EOF\nEOF\n", json!({"text": ""}));
        check("text<<EOF\na=b\n EOF\nEOF\n", json!({"text": "a=b\n EOF"}));
        check(" {\"rows\": 3, \"deep\": {\"a\": [1, null]}}\n", json!({"rows": 3, "deep": {"a": [1, null]}}));
        check("\u{feff}a=1", json!({"a": "1"}));
        check("{}", json!({}));
    }

    #[test]
    fn nothing_written_is_no_output() {
        for text in ["", "\n", "  \n\t\n"] {
            assert_eq!(parse_output(text).unwrap(), None, "{text:?}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (text, message) in [
            ("a=1\nnonsense\n", "line 2 of the output is neither `key=value` nor `key<<END`: `nonsense`"),
            ("=1\n", "line 1 of the output is neither"),
            ("a<<EOF\nx\n", "line 1 of the output begins a value with `<<EOF` that no line `EOF` ends"),
            ("a<<\nx\n", "line 1"),
            ("{\"a\": 1", "begins like a JSON object but is none"),
            ("{\"a\": 1} trailing", "begins like a JSON object but is none"),
        ] {
            let error = parse_output(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text:?}: {error}");
        }
    }

    #[test]
    fn deep_json_is_refused_without_overflowing_the_stack() {
        let deep = format!("{{\"a\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse_output(&deep).is_err());
    }

    #[test]
    fn only_regular_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("output");
        assert_eq!(read_output(&path).unwrap(), None);
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(matches!(read_output(&path), Err(OutputError::NotAFile)));
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(read_output(&path), Err(OutputError::NotAFile)));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"a=\xff").unwrap();
        assert!(matches!(read_output(&path), Err(OutputError::NotText(2))));
        std::fs::write(&path, b"a=x\0y").unwrap();
        assert_eq!(read_output(&path).unwrap(), Some(json!({"a": "xy"})));
    }
}
