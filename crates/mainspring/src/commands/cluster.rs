//! `mainspring cluster`: which nodes take part, which one leads, and what waits.

use mainspring_api::cluster::Cluster;

use crate::api::Connection;
use crate::app::App;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Format, Table, local_text};

pub(crate) async fn cluster(app: &App<'_>) -> Result {
    app.start_logs();
    let api = Connection::open_existing(app).await?;
    let answer = api.send("GET", &["cluster"], &[], None).await?;
    let format = app.out.record_format();
    if format != Format::Table {
        app.out.value(format, &answer);
        return Ok(Exit::Success);
    }
    let view: Cluster = serde_json::from_value(answer)
        .map_err(|error| Failure::failed(format!("the answer does not fit: {error}")).remedy("use the same version"))?;
    let mut nodes = Table::new(&["NODE", "ROLES", "VERSION", "ADDRESS", "SINCE", "STATUS", "WORKERS"]);
    for member in &view.members {
        let status = match (member.alive, member.leads) {
            (false, _) => "silent",
            (true, true) => "leader",
            (true, false) => "active",
        };
        let cells = [
            member.name.clone(),
            member.roles.join(","),
            member.version.clone(),
            member.address.clone().unwrap_or_else(|| "-".into()),
            local_text(&member.since),
            status.to_owned(),
            member.workers.join(","),
        ];
        nodes.row(cells.into_iter().map(|cell| (cell, None)).collect());
    }
    if view.members.is_empty() {
        app.out.note("no node takes part: start one with `mainspring server`");
    } else {
        nodes.print(app.out);
    }
    for service in std::iter::once(&view.coordination).chain(&view.redis) {
        app.out.line(format_args!("{}: {}, {}", service.kind, service.status, service.message));
    }
    let count = view.queues.len();
    let queues = if count == 1 { "queue" } else { "queues" };
    app.out.line(format_args!("epoch {}, {count} {queues} with ready tasks", view.epoch));
    if !view.queues.is_empty() {
        let mut queues = Table::new(&["NAMESPACE", "QUEUE", "READY"]);
        for queue in &view.queues {
            let cells = [queue.namespace.clone(), queue.queue.clone(), queue.ready.to_string()];
            queues.row(cells.into_iter().map(|cell| (cell, None)).collect());
        }
        queues.print(app.out);
    }
    Ok(Exit::Success)
}
