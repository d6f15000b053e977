//! The workflow behind a poll: one task, the check, whose end the trigger listens to.
//!
//! A check is executed like every other task, so routes, secrets, timeouts, retries, logs and the guard of requests hold for
//! it without a word of their own. Its workflow is derived: it is stored with the workflow whose trigger it belongs to.

use indexmap::IndexMap;
use serde_json::json;

use super::{Concurrency, Lifecycle, Overlap, Reads, Trigger, Workflow};

/// The name of the one task.
pub const CHECK_TASK: &str = "check";
/// The output of the workflow that holds what the check put out.
pub const CHECK_RESULT: &str = "result";

/// The name of the workflow that a trigger's checks are runs of. The colon keeps it apart from every name that can be written.
pub fn check_name(workflow: &str, trigger: &str) -> String {
    format!("{workflow}:{trigger}")
}

impl Workflow {
    /// The workflow that executes the checks of a poll; `None` for every other trigger.
    pub fn check_of(&self, trigger: &Trigger) -> Option<Self> {
        let poll = trigger.poll.as_deref()?;
        let result = format!("${{{{ tasks.{CHECK_TASK}.output }}}}");
        Some(Self {
            name: check_name(&self.name, &trigger.id),
            namespace: self.namespace.clone(),
            title: None,
            label: None,
            metadata: serde_json::Value::Null,
            description: Some(format!("The check of trigger `{}` of workflow `{}`", trigger.id, self.name)),
            tags: Vec::new(),
            inputs: IndexMap::new(),
            env: IndexMap::new(),
            priority: self.priority,
            timeout_ms: None,
            // A check that takes longer than the interval is not overtaken by the next.
            concurrency: Some(Concurrency { key: None, limit: 1, overlap: Overlap::Skip, max_queued: None }),
            lifecycle: Lifecycle::default(),
            notifications: Vec::new(),
            domain_events: Vec::new(),
            secrets: self.secrets.clone(),
            callers: Vec::new(),
            triggers: Vec::new(),
            files: self.files.clone(),
            env_files: Vec::new(),
            outputs: IndexMap::from([(CHECK_RESULT.to_owned(), json!(result))]),
            output_reads: Reads { any: true, tasks: vec![0], ..Reads::default() },
            reads_schedule: true,
            tasks: vec![poll.task.clone()],
        })
    }
}
