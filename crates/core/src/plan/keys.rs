//! The keys of `reuse` and `cache`, with values for expressions.

use serde_json::Value;

use super::{failure, within_task};
use crate::Workflow;
use crate::expr::{EvalError, Scope, render_text};
use crate::work::Failure;
use crate::workflow::MAX_CACHE_KEY;

/// What a task's earlier results and files are looked for by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheKeys {
    pub reuse: Option<String>,
    pub cache: Option<String>,
}

impl Workflow {
    /// Whether something of a task is kept for later runs.
    pub fn is_cached(&self, index: usize) -> bool {
        let task = &self.tasks[index];
        task.reuse.is_some() || task.cache.is_some()
    }

    /// The keys of a task; none without `reuse` and `cache`.
    pub fn cache_keys(&self, index: usize, scope: &Scope) -> Result<CacheKeys, Failure> {
        let task = &self.tasks[index];
        if !self.is_cached(index) {
            return Ok(CacheKeys::default());
        }
        let mut env = self.rendered_env(scope).map_err(|error| failure("`env` of the workflow", error))?;
        for (name, text) in &task.env {
            let value = render_text(text, scope, &env);
            let value = value.map_err(|error| within_task(&format!("`env.{name}`"), &task.name, error))?;
            env.insert(name.clone(), Value::String(value));
        }
        let key = |part: &str, template: Option<&String>| {
            let rendered = template.map(|template| render_text(template, scope, &env).and_then(checked)).transpose();
            rendered.map_err(|error| within_task(part, &task.name, error))
        };
        Ok(CacheKeys {
            reuse: key("`reuse.key`", task.reuse.as_deref().map(|reuse| &reuse.key))?,
            cache: key("`cache.key`", task.cache.as_deref().map(|cache| &cache.key))?,
        })
    }
}

fn checked(key: String) -> Result<String, EvalError> {
    if key.trim().is_empty() {
        return Err(EvalError("the key is empty".into()));
    }
    if key.len() > MAX_CACHE_KEY || key.chars().any(char::is_control) {
        return Err(EvalError(format!("the key has more than {MAX_CACHE_KEY} bytes, or more than one line")));
    }
    Ok(key)
}
