//! The effect log: what tasks really did, one line per execution, written by the tasks themselves.
//!
//! The file stands for a sink that checks tokens: of all lines for one task run and generation it would accept the one
//! under the token that the history names.

use std::path::Path;

use anyhow::Context;
use mainspring_core::{RunId, TaskKey};

/// The script of a task that appends its line. The file's name is in the variable `EFFECTS`; one write of one short line
/// to a file opened for appending is never torn.
pub const APPEND: &str =
    r#"echo "$MAINSPRING_IDEMPOTENCY_KEY $MAINSPRING_ATTEMPT $MAINSPRING_FENCING_TOKEN" >> "$EFFECTS""#;

/// One execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Effect {
    pub key: TaskKey,
    pub generation: i32,
    pub attempt: i32,
    pub session: i64,
}

pub fn read(path: &Path) -> anyhow::Result<Vec<Effect>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    text.lines().map(|line| parse(line).with_context(|| format!("the effect log has the line {line:?}"))).collect()
}

/// `RUN.INDEX.gGENERATION ATTEMPT SESSION.ATTEMPT`
fn parse(line: &str) -> Option<Effect> {
    let mut words = line.split(' ');
    let (key, generation) = words.next()?.rsplit_once(".g")?;
    let (run, index) = key.split_once('.')?;
    let attempt = words.next()?.parse().ok()?;
    let (session, token_attempt) = words.next()?.split_once('.')?;
    let run: RunId = run.parse().ok()?;
    let effect = Effect {
        key: TaskKey::new(run, index.parse().ok()?),
        generation: generation.parse().ok()?,
        attempt,
        session: session.parse().ok()?,
    };
    (token_attempt.parse() == Ok(attempt) && words.next().is_none()).then_some(effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_torn_ones_refused() {
        let run = RunId::from_u128(7);
        let effect = parse(&format!("{run}.3.g1 2 9.2")).unwrap();
        assert_eq!(effect, Effect { key: TaskKey::new(run, 3), generation: 1, attempt: 2, session: 9 });
        for torn in ["", "x", &format!("{run}.3.g1 2"), &format!("{run}.3.g1 2 9.3"), &format!("{run}.3 2 9.2 more")] {
            assert_eq!(parse(torn), None, "{torn}");
        }
    }
}
