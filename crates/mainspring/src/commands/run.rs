//! `mainspring run`: one workflow from its file to its end, with a store of its own.

use std::time::Duration;

use clap::Args;
use mainspring_core::state::RunState;
use mainspring_core::{RunId, Workflow};
use mainspring_engine::{Client, NodeConfig, Submission};
use mainspring_store::{Connect, Operator, Store};
use tokio::sync::broadcast::error::RecvError;

use crate::app::App;
use crate::config::Flag;
use crate::database;
use crate::failure::{Exit, Failure, Result};
use crate::inputs::InputArgs;
use crate::local::LocalNode;
use crate::output::Format;
use crate::progress::{Follower, Plan, Show, Source, failed, print_summary};
use crate::signals::Signals;
use crate::{bundle, children, source, views};

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The workflow file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    #[command(flatten)]
    inputs: InputArgs,
    /// Print one JSON object at the end and nothing else
    #[arg(long)]
    json: bool,
    /// How many processes run at once
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Keep the run in the database (a SQLite file; by default in .mainspring/)
    #[arg(long)]
    keep: bool,
}

impl RunArgs {
    pub(crate) fn flags(&self) -> Option<Flag> {
        self.slots.map(|slots| Flag { key: "worker.slots", flag: "slots", value: slots.to_string() })
    }
}

pub(crate) async fn run(app: &App<'_>, args: RunArgs) -> Result {
    app.start_logs();
    let (mut workflow, source) = source::workflow(app, &args.file)?;
    let files = bundle::read(&workflow, &source)?;
    let children = children::find(app, &workflow, &source)?;
    let inputs = args.inputs.values(&workflow)?;
    // One run is wanted, now: nothing fires beside it, and calendars that it names need not exist.
    workflow.triggers.clear();
    let mut signals = Signals::install()?;
    let store = open(app, args.keep).await?;
    let client = app.client(store)?;
    let lock = client.store().lock_server()?;
    database::prepare(client.store(), client.now(), lock.is_some()).await?;
    require_engine(app, std::iter::once(&workflow).chain(children.iter().map(|child| &child.workflow)))?;
    require_secrets(&client, std::iter::once(&workflow).chain(children.iter().map(|child| &child.workflow)))?;
    for child in children {
        let workflow = Workflow { triggers: Vec::new(), ..child.workflow };
        client.put_workflow_with_files(workflow, &child.source.text, &child.files).await?;
    }
    let spec = client.put_workflow_with_files(workflow, &source.text, &files).await?;
    // Before anything starts, so that bad inputs end here with nothing done.
    let created = client.submit(&spec, Submission { inputs, ..Submission::default() }).await?;
    let id = created.run().ok_or_else(|| {
        Failure::failed("the run was left out: as many runs as `concurrency` permits are going on already")
    })?;
    let (node, tap) = LocalNode::start_with_tap(
        client.clone(),
        node_config(app, &spec.workflow),
        app.pool_config(),
        app.registry(&client),
    )
    .await?;
    let as_json = args.json || matches!(app.out.format, Some(Format::Json | Format::Yaml));
    let mut show = Show::new(app.out, !as_json);
    let source = Source::Store { client: Box::new(client.clone()), run: id };
    let mut follower = Follower::new(source, Plan::Stored(spec.clone()), Some(tap), !show.is_nothing()).await?;
    let followed = follow(app, &client, &node, &mut follower, &mut show, &mut signals).await;
    // From here on what tasks print has no reader, and they must not wait for one.
    follower.stop_listening();
    let interrupted = match followed {
        Ok(interrupted) => interrupted,
        Err(failure) => {
            drop(show);
            if failure.exit == Exit::Interrupted {
                // At once: the watchdog kills what still runs, and the store goes when everything that holds it is dropped.
                return Err(failure);
            }
            node.shutdown(Duration::ZERO).await;
            return Err(failure);
        }
    };
    show.finish(&follower.look, client.now());
    drop(show);
    report(app, &client, &mut follower, &spec.workflow, as_json).await?;
    // What else a kept store held goes back to it at once.
    node.shutdown(Duration::ZERO).await;
    client.store().close().await;
    drop(lock);
    Ok(match follower.look.summary.state {
        _ if interrupted => Exit::Interrupted,
        RunState::Success => Exit::Success,
        _ => Exit::WorkFailed,
    })
}

/// Prints how the run ended: as one object, or as a summary.
async fn report(
    app: &App<'_>,
    client: &Client,
    follower: &mut Follower,
    workflow: &Workflow,
    as_json: bool,
) -> Result<()> {
    let id = follower.look.summary.id;
    let rows = client.store().task_runs(id).await?;
    let caches = follower.caches().await?;
    if as_json {
        let outputs = match client.outputs(id).await? {
            Ok(outputs) if follower.look.summary.state == RunState::Success => {
                Some(outputs).filter(|all| !all.is_empty())
            }
            _ => None,
        };
        let report = views::Report::new(&follower.look.summary, &rows, workflow, &caches, outputs);
        app.out.value(app.out.format.unwrap_or(Format::Json), &report);
    } else {
        follower.look_at_the_end().await?;
        let caches = caches.lines(&rows, workflow);
        print_summary(app.out, &follower.look, &failed(&rows, workflow), &caches);
    }
    Ok(())
}

/// Tasks with an image need something that runs it, and there is no other worker.
fn require_engine<'w>(app: &App<'_>, mut workflows: impl Iterator<Item = &'w Workflow>) -> Result<()> {
    let contained =
        |workflow: &Workflow| workflow.tasks.iter().find(|task| task.container.is_some()).map(|task| task.name.clone());
    match workflows.find_map(contained).filter(|_| app.config.worker.container_engine.is_none()) {
        None => Ok(()),
        Some(task) => Err(Failure::bad_input(format!(
            "task `{task}` runs in a container image, but there is no container engine here"
        ))
        .remedy("install podman or docker, or name one in MAINSPRING_WORKER_CONTAINER_ENGINE")),
    }
}

/// Secrets that a workflow names must exist before anything starts.
fn require_secrets<'w>(client: &Client, workflows: impl Iterator<Item = &'w Workflow>) -> Result<()> {
    for workflow in workflows {
        if let Some(name) = client.secrets().missing(workflow).first() {
            return Err(Failure::bad_input(format!(
                "workflow `{}` needs the secret `{name}`, which does not exist",
                workflow.name
            ))
            .remedy(format!("set MAINSPRING_SECRET_{name} in the environment")));
        }
    }
    Ok(())
}

/// A node that may do everything the workflow asks for: there is no other.
fn node_config(app: &App<'_>, workflow: &Workflow) -> NodeConfig {
    let defaults = NodeConfig::default();
    let worker = &app.config.worker;
    NodeConfig {
        queues: Vec::new(),
        labels: workflow.tasks.iter().flat_map(|task| task.labels.clone()).collect(),
        process_slots: worker.slots.unwrap_or(defaults.process_slots).max(1),
        function_slots: worker.function_slots.max(1),
        // No other node could.
        serves_remote: true,
        leads: true,
        ..app.node_config()
    }
}

async fn open(app: &App<'_>, keep: bool) -> Result<Store> {
    if !keep {
        return Ok(Store::connect(&Connect::new("sqlite::memory:")).await?);
    }
    if !app.config.database.starts_with("sqlite:") {
        return Err(Failure::bad_input("`run --keep` keeps runs in a SQLite file, but --database names another store")
            .remedy("use `mainspring submit --wait` on a database that servers work on"));
    }
    database::connect(&app.config).await
}

/// Follows the run to its end. True if it was interrupted.
async fn follow(
    app: &App<'_>,
    client: &Client,
    node: &LocalNode,
    follower: &mut Follower,
    show: &mut Show<'_>,
    signals: &mut Signals,
) -> Result<bool> {
    let id = follower.look.summary.id;
    let mut ended = node.handle().ended_runs();
    let mut interrupted = false;
    loop {
        // Looking is only worth its cost with a viewer; the node says when the run ends.
        let changes = follower.look().await?;
        show.update(&follower.look, &changes, client.now());
        if follower.look.summary.state.is_terminal() {
            return Ok(interrupted);
        }
        let pause = follower.pause(app.follow_every() * if show.is_nothing() { 5 } else { 1 });
        tokio::select! {
            () = until_ended(&mut ended, id) => {}
            () = tokio::time::sleep(pause) => {}
            () = follower.listen() => {}
            signal = signals.next() => {
                if interrupted {
                    let message = "interrupted again: what still runs is killed".into();
                    return Err(Failure { exit: Exit::Interrupted, message, remedy: None });
                }
                interrupted = true;
                show.remark(&format!("{signal}: cancelling the run; once more to quit at once"));
                client.cancel(id, &Operator::new("cli", Some("interrupted".into()))).await?;
            }
        }
    }
}

/// Returns when this run has ended on this node. Never, if that was missed: then a look will tell.
async fn until_ended(ended: &mut tokio::sync::broadcast::Receiver<(RunId, RunState)>, id: RunId) {
    loop {
        match ended.recv().await {
            Ok((run, _)) if run == id => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}
