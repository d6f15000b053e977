//! `mainspring jobs reschedule`.

use clap::Args;
use mainspring_api::jobs::{Job, JobType, NewSchedule};
use mainspring_core::time::rfc3339;
use mainspring_core::work::Clock;
use mainspring_engine::SystemClock;

use super::{JobArg, report};
use crate::api::Connection;
use crate::app::App;
use crate::failure::{Failure, Result};
use crate::instants::parse_future;

#[derive(Debug, Args)]
pub(crate) struct RescheduleArgs {
    #[command(flatten)]
    job: JobArg,
    /// A cron expression, an interval or an instant, whichever the job goes by
    #[arg(value_name = "SCHEDULE", required_unless_present = "when", conflicts_with = "when")]
    schedule: Option<String>,
    /// Fire by this cron expression from now on
    #[arg(long, value_name = "EXPR", group = "when")]
    cron: Option<String>,
    /// Fire at this interval from now on, like 15m
    #[arg(long, value_name = "INTERVAL", group = "when")]
    every: Option<String>,
    /// Fire then: a time, or 5m for in five minutes
    #[arg(long, value_name = "TIME", group = "when")]
    at: Option<String>,
    /// The time zone of a cron expression
    #[arg(long, value_name = "ZONE", alias = "timezone")]
    tz: Option<String>,
}

pub(super) async fn reschedule(app: &App<'_>, api: &Connection, args: RescheduleArgs) -> Result<()> {
    let within = [("namespace", api.namespace())];
    let job = args.job.job;
    let at = args.at.as_deref().map(|at| parse_future("at", at, SystemClock::new().now()).map(rfc3339)).transpose()?;
    let wanted = [(JobType::Cron, args.cron), (JobType::Recurring, args.every), (JobType::OneTime, at)];
    let wanted = wanted.into_iter().find_map(|(kind, schedule)| Some((kind, schedule?)));
    if let Some((kind, _)) = &wanted {
        let shown: Job = api.read(&["scheduler", "jobs", &job], &within).await?;
        if shown.r#type != *kind {
            let flag = |kind: JobType| match kind {
                JobType::Cron => "--cron",
                JobType::Recurring => "--every",
                JobType::OneTime => "--at",
                JobType::Dependent => "--after",
            };
            let (name, was, new) = (&shown.name, flag(shown.r#type), flag(*kind));
            return Err(Failure::bad_input(format!(
                "job {name} was created with {was}, and keeps to that kind of schedule"
            ))
            .remedy(format!("give {was}, or delete the job and create it anew with {new}")));
        }
    }
    // One of them is given: the arguments say so.
    let schedule = wanted.map(|(_, schedule)| schedule).or(args.schedule).unwrap_or_default();
    let body = NewSchedule { schedule, timezone: args.tz };
    let changed: Job = api.write("PUT", &["scheduler", "jobs", &job, "schedule"], &within, &body).await?;
    report(app, &changed, "has another schedule");
    Ok(())
}
