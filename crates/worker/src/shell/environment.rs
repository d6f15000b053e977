//! The environment of a task: allowed names of the worker, the variables of the order, and those that Mainspring sets.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use mainspring_core::work::{Assignment, Failure};

use super::command::Workbench;
use super::launch::refused;

pub(super) type Environment<'a> = Vec<(&'a OsStr, Cow<'a, OsStr>)>;

impl Workbench {
    /// Nothing of the worker's own environment but the allowed names; then the order's; then ours, which always hold.
    pub(super) fn environment<'a>(
        &'a self,
        assignment: &'a Assignment,
        from_files: &'a [(String, String)],
        output: &'a Path,
    ) -> Result<Environment<'a>, Failure> {
        let order = &assignment.order;
        let mut environment: Environment<'a> = Vec::with_capacity(self.environment.len() + order.env.len() + 10);
        environment.extend(self.environment.iter().map(|(name, value)| (name.as_os_str(), Cow::from(value))));
        environment.extend(from_files.iter().map(|(name, value)| (OsStr::new(name), Cow::from(OsStr::new(value)))));
        for (name, value) in &order.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(refused(format!(
                    "`{}` cannot be the name of an environment variable",
                    name.escape_debug()
                )));
            }
            if value.contains('\0') {
                return Err(refused(format!("the environment variable `{name}` contains a NUL character")));
            }
            environment.push((name.as_ref(), Cow::from(OsStr::new(value))));
        }
        let mut own = |name: &'static str, value: Cow<'a, OsStr>| environment.push((OsStr::new(name), value));
        own("MAINSPRING_RUN_ID", owned(assignment.key.run.to_string()));
        own("MAINSPRING_TASK_ID", owned(assignment.key.to_string()));
        own("MAINSPRING_TASK", Cow::from(OsStr::new(&order.task)));
        own("MAINSPRING_WORKFLOW", Cow::from(OsStr::new(&order.workflow)));
        own("MAINSPRING_NAMESPACE", Cow::from(OsStr::new(&order.namespace)));
        own("MAINSPRING_ATTEMPT", owned(assignment.attempt.to_string()));
        own("MAINSPRING_FENCING_TOKEN", owned(format!("{}.{}", assignment.session, assignment.attempt)));
        own("MAINSPRING_IDEMPOTENCY_KEY", owned(assignment.idempotency_key()));
        own("MAINSPRING_OUTPUT", Cow::from(output.as_os_str()));
        if let Some(trace) = assignment.trace {
            own("TRACEPARENT", owned(trace.to_string()));
        }
        Ok(environment)
    }
}

fn owned(text: String) -> Cow<'static, OsStr> {
    Cow::Owned(text.into())
}

/// How bash hands functions to its children.
pub(super) fn is_function(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"BASH_FUNC_")
}
