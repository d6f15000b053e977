//! JUnit's XML, which build servers read.

use std::fmt::Write as _;

use super::report::FileReport;

pub(super) fn write(reports: &[FileReport]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for report in reports {
        let failures = report.cases.iter().filter(|case| !case.differences.is_empty()).count();
        let errors = usize::from(report.invalid > 0);
        let file = escaped(&report.file);
        let _ = writeln!(
            text,
            "  <testsuite name=\"{file}\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\">",
            report.cases.len() + errors
        );
        for case in &report.cases {
            // The time is the virtual one: playing takes none to speak of.
            let seconds = case.virtual_micros as f64 / 1e6;
            let _ = write!(
                text,
                "    <testcase name=\"{}\" classname=\"{file}\" file=\"{file}\" line=\"{}\" time=\"{seconds}\"",
                escaped(&case.name),
                case.place.line
            );
            if case.differences.is_empty() {
                text.push_str("/>\n");
                continue;
            }
            let lines: Vec<String> = case
                .differences
                .iter()
                .map(|one| {
                    let place = format!("{}:{}:{}", report.file, one.place.line, one.place.column);
                    format!("{} ({place}): expected {}, but was {}", one.about, one.expected, one.actual)
                })
                .collect();
            let _ = writeln!(
                text,
                ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                escaped(&lines[0]),
                escaped(&lines.join("\n"))
            );
        }
        if report.invalid > 0 {
            let messages: Vec<&str> = report.errors.iter().filter_map(|error| error["message"].as_str()).collect();
            let _ = writeln!(
                text,
                "    <testcase name=\"{file}\" classname=\"{file}\"><error message=\"{}\">{}</error></testcase>",
                escaped(messages.first().unwrap_or(&"invalid")),
                escaped(&messages.join("\n"))
            );
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => escaped.push('?'),
            character => escaped.push(character),
        }
    }
    escaped
}
