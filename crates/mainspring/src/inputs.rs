//! `-i key=value`, for `run` and `submit`.

use clap::Args;
use mainspring_core::Workflow;
use mainspring_core::diagnostic::quoted;
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};

#[derive(Debug, Args)]
pub(crate) struct InputArgs {
    /// An input of the run, as often as there are inputs
    #[arg(short, long = "input", value_name = "KEY=VALUE")]
    input: Vec<String>,
}

impl InputArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    /// Turns texts into values by the declared types. Whether they fit is checked with everything else on submission.
    pub(crate) fn values(&self, workflow: &Workflow) -> Result<Map<String, Value>> {
        let mut values = Map::new();
        for pair in &self.input {
            let Some((name, text)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                return Err(Failure::bad_input(format!("the input {} has no value", quoted(pair)))
                    .remedy("write it as -i key=value"));
            };
            refuse_bare_list(workflow, name, text)?;
            if values.insert(name.to_owned(), workflow.input_from_text(name, text)).is_some() {
                return Err(Failure::bad_input(format!("the input {} is given twice", quoted(name)))
                    .remedy("give it once; a list is written as -i name='[1, 2]'"));
            }
        }
        Ok(values)
    }
}

/// `eu,us` for a list is a mistake that the type of the input tells.
fn refuse_bare_list(workflow: &Workflow, name: &str, text: &str) -> Result<()> {
    let is_text = workflow.input_from_text(name, text).is_string();
    let is_list = is_text && workflow.input_from_text(name, "[]").is_array();
    if !is_list {
        return Ok(());
    }
    let items: Vec<String> = text.split(',').map(|item| format!("\"{}\"", item.trim())).collect();
    Err(Failure::bad_input(format!("the input {} is a list, and {} is not one", quoted(name), quoted(text)))
        .remedy(format!("write it as JSON: -i {name}='[{}]'", items.join(", "))))
}
