//! `mainspring search`: workflows, runs and errors by words.

use clap::Args;

use crate::api::{Connection, items};
use crate::app::App;
use crate::failure::{Exit, Result};
use crate::output::{Format, Table, plain};
use crate::views::text;

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
            let mut table = Table::new(&["KIND", "ID", ""]);
            for one in items(&found) {
                let words: String = plain(text(one, "body")).split_whitespace().collect::<Vec<_>>().join(" ");
                let cells = [text(one, "kind").to_owned(), text(one, "id").to_owned(), words];
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
