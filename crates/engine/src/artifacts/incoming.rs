//! Which files of other tasks an attempt is given.

use std::collections::HashMap;

use mainspring_core::TaskKey;
use mainspring_core::ids::NO_ITEM;
use mainspring_core::work::{Failure, IncomingFile};
use mainspring_store::{ArtifactRow, Claimed};

use crate::exchange::scopes::{WithSpec, pause};
use crate::node::Shared;
use crate::specs::Spec;

/// The files for each claim with `files_from`, or the reason why the attempt cannot begin. Retries while the store is
/// unreachable; `None` when the node stops.
pub(crate) async fn incoming_files(
    shared: &Shared,
    claims: &[WithSpec],
) -> Option<HashMap<TaskKey, Result<Vec<IncomingFile>, Failure>>> {
    let mut incoming = HashMap::new();
    for (claim, spec) in claims {
        if spec.workflow.tasks[claim.token.key.index as usize].files_from.is_empty() {
            continue;
        }
        loop {
            match of_claim(shared, claim, spec).await {
                Ok(files) => {
                    incoming.insert(claim.token.key, files);
                    break;
                }
                Err(error) => tracing::warn!(%error, task = %claim.token.key, "reading which files a task is given"),
            }
            pause(shared).await?;
        }
    }
    Some(incoming)
}

async fn of_claim(
    shared: &Shared,
    claim: &Claimed,
    spec: &Spec,
) -> mainspring_store::Result<Result<Vec<IncomingFile>, Failure>> {
    let (run, workflow) = (claim.token.key.run, &spec.workflow);
    let mut given: Vec<IncomingFile> = Vec::new();
    for from in &workflow.tasks[claim.token.key.index as usize].files_from {
        let patterns = workflow.patterns_of(from);
        let producer = &workflow.tasks[from.task as usize].name;
        let mut rows = shared.client.store.artifacts_of_task(run, from.task).await?;
        rows.retain(|row| patterns.matches(&row.name));
        if rows.is_empty() && shared.client.store.task_succeeded(run, from.task).await? {
            let message = format!(
                "`{}` has no files: the task `{producer}` succeeded and left none that match",
                workflow.describe_files(from)
            );
            return Ok(Err(refused(message)));
        }
        for row in rows {
            let file = incoming(run, producer, row);
            let before = given.iter().find(|before| before.path == file.path);
            if before.is_some_and(|before| (before.task_run_id, &before.name) == (file.task_run_id, &file.name)) {
                // Two entries named the same file.
                continue;
            }
            if let Some(before) = before {
                let other = workflow.tasks.get(before.task_run_id.index as usize).map_or("", |task| task.name.as_str());
                let message = format!(
                    "the tasks `{other}` and `{producer}` both left the file `{}`: let one of them use another folder",
                    file.path
                );
                return Ok(Err(refused(message)));
            }
            given.push(file);
        }
    }
    Ok(Ok(given))
}

/// Files keep their path. Files of the items of a repeated task go into one folder per item: `TASK/NUMBER/`.
fn incoming(run: mainspring_core::RunId, producer: &str, row: ArtifactRow) -> IncomingFile {
    let path = match row.item {
        NO_ITEM => row.name.clone(),
        item => format!("{producer}/{item}/{}", row.name),
    };
    IncomingFile {
        task_run_id: TaskKey { run, index: row.idx, item: row.item },
        attempt: row.attempt,
        name: row.name,
        path,
        executable: row.executable,
        bytes: row.bytes.unsigned_abs(),
        sha256: row.sha256,
        cached: false,
    }
}

fn refused(message: String) -> Failure {
    Failure { kind: "files".into(), message, permanent: true, ..Failure::default() }
}
