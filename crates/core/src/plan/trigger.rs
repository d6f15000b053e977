//! What a trigger gives to the run that it starts.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::expr::{Scope, evaluate, render_json};
use crate::work::Failure;
use crate::workflow::Trigger;

use super::failure;

/// The longest key of a poll that is kept as it is, in bytes; of a longer one its digest is.
const LONGEST_KEY: usize = 256;

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

    /// What identifies the finding of a check; `None` if there is none: the key is null or an empty text.
    pub fn poll_key(&self, scope: &Scope) -> Result<Option<String>, Failure> {
        let Some(poll) = &self.poll else { return Ok(None) };
        let value = evaluate(&poll.key, scope, &Map::new())
            .map_err(|error| failure(&format!("`poll.key` of trigger `{}`", self.id), error))?;
        let text = match value {
            Value::Null => return Ok(None),
            Value::String(text) => text,
            other => other.to_string(),
        };
        let fits = text.len() <= LONGEST_KEY && !text.chars().any(char::is_control);
        Ok(match text.is_empty() {
            true => None,
            false if fits => Some(text),
            false => {
                let digest = Sha256::digest(text.as_bytes());
                Some(digest.iter().fold(String::from("sha256:"), |hex, byte| format!("{hex}{byte:02x}")))
            }
        })
    }
}
