//! `submit --batch`: many runs of stored workflows, a thousand per request.

use serde_json::{Value, json};

use crate::api::{Connection, Content, strange};
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::output::Format;
use crate::source::{Source, Unread};

/// What one request may start.
const PER_REQUEST: usize = 1_000;

pub(super) async fn submit(app: &App<'_>, path: &str) -> Result {
    let source = match Source::read(path) {
        Ok(source) => source,
        Err(Unread::Missing(failure)) => return Err(failure),
        Err(Unread::NoText(wrong)) => return Err(Failure::bad_input(format!("{path}: {}", wrong.message))),
    };
    let runs = read(&source.text).map_err(|cause| Failure::bad_input(format!("{}: {cause}", source.name)))?;
    let api = Connection::open_existing(app).await?;
    let (mut made, mut refused) = (0, 0);
    for (nth, part) in runs.chunks(PER_REQUEST).enumerate() {
        let body = json!({"runs": part}).to_string().into_bytes();
        let content = Content { kind: "application/json", bytes: body };
        let answer = api.ask("POST", &["workflow-runs", "bulk"], &[], Some(content), &[]).await?.value()?;
        let results = answer["results"].as_array().ok_or_else(strange)?;
        for (place, result) in results.iter().enumerate() {
            let number = nth * PER_REQUEST + place + 1;
            match result["id"].as_str() {
                Some(id) => {
                    made += 1;
                    if app.out.format.is_none() {
                        app.out.line(id);
                    }
                }
                None => {
                    refused += 1;
                    let cause = result["error"]["detail"].as_str().unwrap_or("it was refused");
                    app.out.complaint(&format!("run {number}: {cause}"));
                }
            }
        }
        if let Some(format @ (Format::Json | Format::Yaml)) = app.out.format {
            app.out.value(format, &answer);
        }
    }
    let submitted = if made == 1 { "1 run was".into() } else { format!("{made} runs were") };
    let verb = if refused == 1 { "was" } else { "were" };
    app.out.note(format_args!("{submitted} submitted, {refused} {verb} refused"));
    Ok(if refused == 0 { Exit::Success } else { Exit::BadInput })
}

/// A list, or one object per line; what is wrong names its line.
fn read(text: &str) -> std::result::Result<Vec<Value>, String> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|error| format!("is not a list of runs: {error}"));
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let runs: Vec<Value> = lines
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| format!("line {} is not JSON: {error}", number + 1))
        })
        .collect::<std::result::Result<_, _>>()?;
    if runs.is_empty() {
        return Err("holds no run: write one JSON object per line like {\"workflow\": \"etl\"}".to_owned());
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_lists_are_read() {
        assert_eq!(read("{\"a\": 1}\n\n{\"b\": 2}\n").unwrap().len(), 2);
        assert_eq!(read(" [{}, {}, {}]").unwrap().len(), 3);
        assert!(read("{}\n{").unwrap_err().contains("line 2"));
        assert!(read("\n").unwrap_err().contains("no run"));
    }
}
