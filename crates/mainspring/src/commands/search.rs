//! `mainspring search`: workflows, runs and errors by words.

use clap::Args;

use crate::api::{Connection, items};
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, Table, plain};
use crate::views::text;

/// How many characters a table shows of the text of a workflow, which is searched as a whole.
const EXCERPT: usize = 100;
/// How many of these characters stand before the first word that was found.
const BEFORE: usize = 30;

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words that must all occur
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = crate::cli::limit)]
    limit: u16,
}

pub(crate) async fn search(app: &App<'_>, args: SearchArgs) -> Result {
    app.start_logs();
    let api = Connection::open_existing(app).await?;
    let (words, limit) = (args.words.join(" "), args.limit.to_string());
    let query = [("q", Some(words.as_str())), ("namespace", api.namespace()), ("limit", Some(limit.as_str()))];
    let found = api.get(&["search"], &query).await?;
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["KIND", "ID", "FOUND IN"]);
            for one in items(&found) {
                let body: String = plain(text(one, "body")).split_whitespace().collect::<Vec<_>>().join(" ");
                let cells = [text(one, "kind").to_owned(), text(one, "id").to_owned(), excerpt(&body, &args.words)];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            table.print(app.out);
            if items(&found).is_empty() {
                app.out.note("nothing was found");
            }
        }
        format => app.out.value(format, &found),
    }
    Ok(Exit::Success)
}

/// The part of a text around the first of the words.
fn excerpt(body: &str, words: &[String]) -> String {
    let lower = body.to_lowercase();
    let found = words.iter().filter_map(|word| lower.find(&word.to_lowercase())).min().unwrap_or(0);
    let start = lower[..found].chars().count().saturating_sub(BEFORE);
    let length = body.chars().count();
    // A text that fits is shown from its beginning.
    let start = if length <= EXCERPT { 0 } else { start.min(length - EXCERPT) };
    let part: String = body.chars().skip(start).take(EXCERPT).collect();
    let (before, after) = (if start > 0 { "…" } else { "" }, if start + EXCERPT < length { "…" } else { "" });
    format!("{before}{part}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_holds_the_first_word_that_was_found() {
        let words = ["needle".to_owned()];
        assert_eq!(excerpt("a Needle", &words), "a Needle");
        let long = format!("{}Needle{}", "hay ".repeat(60), " straw".repeat(60));
        let shown = excerpt(&long, &words);
        assert!(shown.contains("Needle") && shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert_eq!(shown.chars().count(), EXCERPT + 2);
        assert_eq!(excerpt(&"é".repeat(200), &words).chars().count(), EXCERPT + 1);
    }
}
