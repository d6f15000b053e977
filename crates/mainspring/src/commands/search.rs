//! `mainspring search`: workflows, runs and errors by words.

use clap::Args;
use mainspring_core::workflow::DEFAULT_NAMESPACE;
use serde_json::{Value, json};

use crate::app::App;
use crate::database;
use crate::failure::{Exit, Result};
use crate::output::{Format, Table, plain};

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words that must all occur
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
}

pub(crate) async fn search(app: &App<'_>, args: SearchArgs) -> Result {
    app.start_logs();
    let client = app.client(database::open(&app.config).await?);
    let namespace = app.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let found = client.store().search(namespace, &args.words.join(" "), i64::from(args.limit)).await?;
    match app.out.record_format() {
        Format::Table => {
            let mut table = Table::new(&["KIND", "ID", ""]);
            for one in &found {
                let words: String = plain(&one.body).split_whitespace().collect::<Vec<_>>().join(" ");
                table.row(vec![(one.kind_word().to_owned(), None), (one.id.clone(), None), (words, None)]);
            }
            table.print(app.out);
            if found.is_empty() {
                app.out.note("nothing was found; the function kb:reindex brings the index up to date");
            }
        }
        format => {
            let items: Vec<Value> = found
                .iter()
                .map(|one| json!({"kind": one.kind_word(), "id": one.id, "title": one.title, "body": one.body}))
                .collect();
            app.out.value(format, &json!({"items": items, "next": null}));
        }
    }
    Ok(Exit::Success)
}
