//! What a trigger gives to the run that it starts.

use serde_json::{Map, Value};

use crate::expr::{Scope, render_json};
use crate::work::Failure;
use crate::workflow::Trigger;

use super::failure;

impl Trigger {
    /// Its inputs, every expression replaced by its value over `run`, `workflow` and, where there is one, `event`. Whether
    /// they fit the workflow is another question.
    pub fn rendered_inputs(&self, scope: &Scope) -> Result<Map<String, Value>, Failure> {
        let rendered = self.inputs.iter().map(|(name, value)| {
            let value = render_json(value, scope, &Map::new());
            let within = |error| failure(&format!("`inputs.{name}` of trigger `{}`", self.id), error);
            Ok((name.clone(), value.map_err(within)?))
        });
        rendered.collect()
    }
}
