//! `mainspring cron`: what a cron expression means, before anything depends on it.

use clap::{Args, Subcommand};
use mainspring_core::Micros;
use mainspring_core::diagnostic::quoted;
use mainspring_core::schedule::{self, Cron, CronError};
use mainspring_core::time::rfc3339_short;
use mainspring_core::work::Clock;
use mainspring_engine::SystemClock;
use serde_json::json;

use crate::failure::{Exit, Failure, Result};
use crate::instants::parse_instant;
use crate::output::{Format, Output, Table};

const DEFAULT_COUNT: usize = 5;
const MOST: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// Say in words what an expression means, and when it fires next
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Five fields, six with seconds before them, or @hourly, @daily, …
    #[arg(value_name = "EXPR")]
    expression: String,
    /// The timezone, by its name in the tz database
    #[arg(long, value_name = "TZ", default_value = "UTC")]
    tz: String,
    /// Fires after this time [default: now]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// How many fires to list [default: 5]
    // Under the name of the common flag, which has the same letter: there is no namespace here, and the flag of the
    // command wins. It is a text for that reason too.
    #[arg(id = "namespace", short = 'n', long = "count", value_name = "N")]
    count: Option<String>,
}

pub(crate) fn cron(command: &CronCommand, out: &Output) -> Result {
    match command {
        CronCommand::Explain(args) => explain(args, out),
    }
}

fn explain(args: &ExplainArgs, out: &Output) -> Result {
    let count = count(args.count.as_deref())?;
    let now = SystemClock::new().now();
    let from = args.from.as_deref().map_or(Ok(now), |text| parse_instant("from", text, now))?;
    let cron = Cron::parse(&args.expression, &args.tz).map_err(|error| refused(&args.expression, &error))?;
    let next: Vec<Micros> =
        std::iter::successors(cron.next_after(from), |last| cron.next_after(*last)).take(count).collect();
    match out.record_format() {
        Format::Table => {
            out.line(format_args!("{}, {}", cron.describe(), args.tz));
            let mut table = Table::new(&["LOCAL", "UTC"]);
            for at in &next {
                let cells = [schedule::local(*at, cron.timezone()), rfc3339_short(*at)];
                table.row(cells.into_iter().map(|cell| (cell, None)).collect());
            }
            if next.is_empty() {
                out.note("it does not fire within 41 years");
            } else {
                table.print(out);
            }
        }
        format => {
            let next: Vec<String> = next.into_iter().map(rfc3339_short).collect();
            out.value(format, &json!({ "next": next }));
        }
    }
    Ok(Exit::Success)
}

fn count(text: Option<&str>) -> Result<usize> {
    let Some(text) = text else { return Ok(DEFAULT_COUNT) };
    text.parse().ok().filter(|count| (1..=MOST).contains(count)).ok_or_else(|| {
        Failure::bad_input(format!("-n is {}", quoted(text))).remedy(format!("write a number from 1 to {MOST}"))
    })
}

fn refused(expression: &str, error: &CronError) -> Failure {
    let message = match error {
        CronError::Timezone(unknown) => format!("--tz: {unknown}"),
        error => format!("{} is not a schedule: {error}", quoted(expression)),
    };
    Failure::bad_input(message).remedy(error.help())
}
