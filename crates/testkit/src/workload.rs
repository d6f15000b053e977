//! A mixed workload: everything a run can do, in small, with the ends that each kind of run may have.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use mainspring_core::Micros;
use mainspring_core::state::RunState;
use mainspring_core::workflow::{Action, Task};
use mainspring_engine::{Client, Spec, Submission};
use serde_json::{Map, Value};

use crate::effects::APPEND;

/// A pool of two slots that some tasks share.
pub const POOL: &str = "narrow";

/// How many tasks of a broad run wait for one; more than two chunks of 5,000.
const BROAD: usize = 10_200;
/// One run in this many is broad.
const BROAD_EVERY: usize = 72;

const SUCCESS: &[RunState] = &[RunState::Success];
const FAILED: &[RunState] = &[RunState::Failed];
const EITHER: &[RunState] = &[RunState::Success, RunState::Failed];
const CANCELLED: &[RunState] = &[RunState::Cancelled];

/// One kind of run. `EFFECT` in its text stands for the script that leaves a line in the effect log.
struct Recipe {
    name: &'static str,
    ends: &'static [RunState],
    text: &'static str,
}

/// Workers die often here, so whatever must not fail for it tolerates many losses.
const RECIPES: &[Recipe] = &[
    Recipe { name: "job", ends: SUCCESS, text: "tasks: {a: {function: noop, max_lost: 1000}}" },
    Recipe { name: "shell", ends: SUCCESS, text: "tasks: {a: {run: 'EFFECT', max_lost: 1000}}" },
    Recipe {
        name: "chain",
        ends: SUCCESS,
        text: "
tasks:
  a: {function: noop, max_lost: 1000}
  b: {needs: a, run: 'EFFECT', max_lost: 1000}
  c: {needs: b, function: noop, max_lost: 1000}
  d: {needs: c, function: {handler: sleep, payload: {ms: 20}}, max_lost: 1000}
  e: {needs: d, run: 'EFFECT', max_lost: 1000}",
    },
    Recipe {
        name: "diamond",
        ends: SUCCESS,
        text: "
tasks:
  a: {function: noop, max_lost: 1000}
  b: {needs: a, function: noop, max_lost: 1000, priority: critical}
  c: {needs: a, run: 'EFFECT', max_lost: 1000}
  d: {needs: [b, c], function: noop, max_lost: 1000, priority: low}",
    },
    Recipe {
        name: "rules",
        ends: FAILED,
        text: "
tasks:
  a: {function: fail, max_lost: 1000, retry: {attempts: 1}, on_exhausted: fail}
  b: {function: noop, max_lost: 1000}
  on-done: {needs: [a, b], trigger_rule: all_done, run: 'EFFECT', max_lost: 1000}
  on-one-failed: {needs: [a, b], trigger_rule: one_failed, function: noop, max_lost: 1000}
  on-one-success: {needs: [a, b], trigger_rule: one_success, function: noop, max_lost: 1000}
  on-all-failed: {needs: [a, b], trigger_rule: all_failed, function: noop, max_lost: 1000}
  on-success: {needs: [a, b], run: 'EFFECT', max_lost: 1000}
  after: {needs: [on-success], trigger_rule: always, function: noop, max_lost: 1000}",
    },
    Recipe {
        name: "conditions",
        ends: SUCCESS,
        text: "
inputs: {size: {type: integer, default: 3}}
tasks:
  a: {function: {handler: noop, payload: {n: 2}}, max_lost: 1000}
  taken: {needs: a, if: tasks.a.output.n < inputs.size, run: 'EFFECT', max_lost: 1000}
  left: {needs: a, if: tasks.a.output.n > inputs.size, run: 'EFFECT', max_lost: 1000}
  after-left: {needs: left, function: noop, max_lost: 1000}
  join: {needs: [taken, left], trigger_rule: none_failed, function: {handler: noop, payload: '${{ tasks.a.output.n }}'}, max_lost: 1000}",
    },
    Recipe {
        name: "retries",
        ends: SUCCESS,
        text: "
tasks:
  a: {function: {handler: fail, payload: {times: 2}}, max_lost: 1000, retry: {attempts: 4, delay: 30ms, jitter: 0}}
  b: {needs: a, run: 'EFFECT', max_lost: 1000}",
    },
    Recipe {
        name: "exhausted",
        ends: FAILED,
        text: "
tasks:
  a: {function: fail, max_lost: 1000, retry: {attempts: 3, delay: 10ms}}
  b: {needs: a, run: 'EFFECT', max_lost: 1000}
  c: {function: fail, max_lost: 1000, retry: {attempts: 2, delay: 10ms}, on_exhausted: continue}
  d: {needs: c, run: 'EFFECT', max_lost: 1000}",
    },
    Recipe {
        name: "finalisers",
        ends: FAILED,
        text: "
tasks: {a: {run: exit 3, max_lost: 1000, retry: {attempts: 2, delay: 10ms}}}
on_failure: {tell: {run: 'EFFECT', max_lost: 1000}}
finally: {clean: {run: 'EFFECT', max_lost: 1000}}",
    },
    Recipe {
        name: "pool",
        ends: SUCCESS,
        text: "
tasks:
  a: {function: {handler: sleep, payload: {ms: 10}}, pool: narrow, max_lost: 1000}
  b: {run: 'EFFECT', pool: narrow, max_lost: 1000}
  c: {needs: a, function: {handler: fail, payload: {times: 1}}, retry: {delay: 10ms}, pool: narrow, max_lost: 1000}
  d: {needs: [a, b], run: 'EFFECT', pool: narrow, max_lost: 1000}",
    },
    Recipe {
        name: "exclusive",
        ends: SUCCESS,
        text: "
inputs: {who: {type: string, default: x}}
concurrency: {key: '${{ inputs.who }}', limit: 1, overlap: queue, max_queued: 100000}
tasks:
  a: {function: noop, max_lost: 1000}
  b: {needs: a, run: 'EFFECT', max_lost: 1000}",
    },
    Recipe {
        name: "sleeper",
        ends: SUCCESS,
        text: "
tasks:
  a: {function: {handler: sleep, payload: {ms: 150}}, max_lost: 1000}
  b: {run: 'sleep 0.15; EFFECT', max_lost: 1000}",
    },
    Recipe {
        name: "fragile",
        ends: EITHER,
        text: "
tasks:
  a: {run: 'EFFECT; sleep 0.2', max_lost: 1}
  b: {function: {handler: sleep, payload: {ms: 100}}, retry: {retryable: false}}",
    },
    Recipe {
        name: "overdue",
        ends: FAILED,
        text: "
timeout: 300ms
tasks: {a: {run: sleep 60, max_lost: 1000}, b: {needs: a, function: noop}}
finally: {clean: {run: 'EFFECT', max_lost: 1000}}",
    },
    Recipe {
        name: "endless",
        ends: CANCELLED,
        text: "
tasks: {a: {run: 'EFFECT; sleep 600', max_lost: 1000}, b: {function: {handler: sleep, payload: {seconds: 600}}, max_lost: 1000}, c: {needs: a, function: noop}}
finally: {clean: {run: 'EFFECT', max_lost: 1000}}",
    },
];

/// What only a cluster has: workers with handlers of their own, and a leader that looks for stale runs every second.
const CLUSTER_RECIPES: &[Recipe] = &[
    Recipe {
        name: "remote",
        ends: SUCCESS,
        text: "
tasks:
  a: {remote: {handler: 'chaos:effect', payload: {file: 'FILE'}}, max_lost: 1000}
  b: {needs: a, function: noop, max_lost: 1000}
  c: {needs: a, remote: {handler: 'chaos:effect', payload: {file: 'FILE'}}, max_lost: 1000}",
    },
    Recipe {
        name: "list",
        ends: SUCCESS,
        text: "
tasks:
  a: {foreach: [1, 2, 3, 4, 5, 6], max_parallel: 3, function: noop, max_lost: 1000}
  b: {needs: a, run: 'EFFECT', max_lost: 1000}
  c: {foreach: [1, 2, 3], function: {handler: fail, payload: {times: 1}}, retry: {attempts: 3, delay: 10ms}, max_lost: 1000}",
    },
    Recipe {
        name: "stale",
        ends: FAILED,
        text: "
lifecycle: {steps_in_process: 3s}
tasks: {a: {run: sleep 600, max_lost: 1000}, b: {needs: a, function: noop}}",
    },
    Recipe { name: LETTERS, ends: EITHER, text: "
tasks:
  a: {function: fail, max_lost: 1000, retry: {attempts: 2, delay: 10ms}}
  b: {needs: a, function: noop, max_lost: 1000}" },
];

/// Runs of this workflow end in the dead letter queue, where operators act on them.
pub const LETTERS: &str = "letters";

/// Twelve to twenty tasks, each after some of those before it: most do nothing, some fail at first, share a pool, or leave
/// an effect here or at a remote worker.
fn random_dag(rng: &mut fastrand::Rng) -> String {
    let mut text = String::from("tasks:\n");
    for at in 0..rng.usize(12..=20) {
        let needs: Vec<String> = (0..at).filter(|_| rng.u8(..4) == 0).map(|other| format!("t{other}")).collect();
        let action = match rng.u8(..24) {
            0 => "run: 'EFFECT'",
            1 => "remote: {handler: 'chaos:effect', payload: {file: 'FILE'}}",
            2 => "function: noop, pool: narrow",
            3 => "function: {handler: sleep, payload: {ms: 200}}",
            4 | 5 => "function: {handler: fail, payload: {times: 1}}, retry: {attempts: 4, delay: 20ms, jitter: 0}",
            _ => "function: noop",
        };
        text.push_str(&format!("  t{at}: {{needs: [{}], {action}, max_lost: 1000}}\n", needs.join(", ")));
    }
    text
}

/// A stored kind of run.
#[derive(Debug, Clone)]
pub struct Kind {
    pub name: &'static str,
    pub spec: Arc<Spec>,
    /// The tasks that leave effects.
    pub effects: Vec<i32>,
    /// What must lie between a failed attempt and the next.
    pub delays: Vec<(i32, Micros)>,
    ends: &'static [RunState],
}

/// Something to submit, and what to do with it afterwards.
#[derive(Debug, Clone)]
pub struct Order {
    pub kind: Kind,
    pub submission: Submission,
    pub cancel: bool,
    pub pause: bool,
    /// Do it again once it has ended without success.
    pub reopen: bool,
    /// If so: from the first task on, not only what failed.
    pub from_the_start: bool,
}

impl Order {
    /// How the run may end. A cancelled one that is reopened may find that nothing of it is left to do.
    pub fn ends(&self) -> Vec<RunState> {
        let mut ends = self.kind.ends.to_vec();
        if self.cancel && !ends.contains(&RunState::Cancelled) {
            ends.push(RunState::Cancelled);
        }
        ends
    }
}

/// What can be ordered.
#[derive(Debug, Clone)]
pub struct Workload {
    kinds: Vec<Kind>,
    /// Runs so large that they are made, let go, cancelled and counted in chunks.
    broad: Kind,
    /// One run in this number is broad.
    broad_every: usize,
}

/// Stores every kind of run. Their effects go to the file.
pub async fn store(client: &Client, effects: &Path) -> anyhow::Result<Workload> {
    client.store().set_pool(client.now(), "default", POOL, Some(2)).await?;
    let mut kinds = Vec::new();
    for Recipe { name, ends, text } in RECIPES {
        kinds.push(put(client, effects, (name, ends), text).await?);
    }
    kinds.push(put(client, effects, ("wide", SUCCESS), &wide()).await?);
    let broad = put(client, effects, ("broad", SUCCESS), &broad()).await?;
    Ok(Workload { kinds, broad, broad_every: BROAD_EVERY })
}

/// Stores every kind of run, and those that take remote workers, lists and the detection of stale runs besides.
pub async fn store_for_cluster(client: &Client, effects: &Path, rng: &mut fastrand::Rng) -> anyhow::Result<Workload> {
    let mut workload = store(client, effects).await?;
    for Recipe { name, ends, text } in CLUSTER_RECIPES {
        workload.kinds.push(put(client, effects, (name, ends), text).await?);
    }
    for name in ["dag-a", "dag-b", "dag-c", "dag-d", "dag-e", "dag-f", "dag-g", "dag-h"] {
        workload.kinds.push(put(client, effects, (name, SUCCESS), &random_dag(rng)).await?);
    }
    workload.broad_every = 2_000;
    Ok(workload)
}

async fn put(
    client: &Client,
    effects: &Path,
    (name, ends): (&'static str, &'static [RunState]),
    text: &str,
) -> anyhow::Result<Kind> {
    let text = text.replace("EFFECT", APPEND).replace("FILE", &effects.display().to_string());
    let source = format!("name: {name}\nenv: {{EFFECTS: '{}'}}\n{}\n", effects.display(), text.trim_start());
    let workflow = mainspring_core::parse(&source).map_err(|errors| anyhow!("{name}: {errors}\n{source}"))?;
    let effects =
        (0i32..).zip(&workflow.tasks).filter(|(_, task)| leaves_effect(task)).map(|(index, _)| index).collect();
    // Jitter at its lowest; later delays are longer.
    let delays = (0i32..).zip(&workflow.tasks).map(|(index, task)| (index, task.retry.delay_micros(1, 0.0))).collect();
    let spec = client.put_workflow(workflow, &source).await?;
    Ok(Kind { name, spec, effects, delays, ends })
}

fn leaves_effect(task: &Task) -> bool {
    match &task.action {
        Action::Run { script, .. } => script.contains("$EFFECTS"),
        Action::Remote { handler, .. } => handler == "chaos:effect",
        _ => false,
    }
}

fn wide() -> String {
    let parts: Vec<String> =
        (0..30).map(|at| format!("  p{at}: {{needs: a, function: noop, max_lost: 1000}}")).collect();
    let names: Vec<String> = (0..30).map(|at| format!("p{at}")).collect();
    format!(
        "tasks:\n  a: {{function: noop, max_lost: 1000}}\n{}\n  z: {{needs: [{}], run: 'EFFECT', max_lost: 1000}}",
        parts.join("\n"),
        names.join(", ")
    )
}

/// Three chunks of dependents. Most of them are skipped, so that what takes time is the counting.
fn broad() -> String {
    let mut text = String::from("tasks:\n  a: {function: noop, max_lost: 1000}\n");
    for at in 0..BROAD {
        let rule = if at % 100 == 0 { "all_success" } else { "all_failed" };
        text.push_str(&format!("  p{at}: {{needs: a, trigger_rule: {rule}, function: noop, max_lost: 1000}}\n"));
    }
    text.push_str(&format!(
        "  z: {{needs: [p0, p{}], trigger_rule: all_done, run: 'EFFECT', max_lost: 1000}}",
        BROAD - 1
    ));
    text
}

impl Workload {
    /// The next request of a client.
    pub fn draw(&self, rng: &mut fastrand::Rng, number: usize) -> Order {
        let is_broad = number % self.broad_every == self.broad_every / 3;
        // Each kind comes in turn, so that a short workload has them all.
        let kind = if is_broad { &self.broad } else { &self.kinds[number % self.kinds.len()] }.clone();
        let mut submission = Submission { idempotency_key: Some(format!("order-{number}")), ..Submission::default() };
        if rng.u8(..4) == 0 {
            submission.priority = Some(rng.i16(0..=1000));
        }
        if kind.name == "exclusive" {
            let who = Value::from(format!("customer-{}", rng.u8(..3)));
            submission.inputs = Map::from_iter([("who".to_owned(), who)]);
        }
        let by_hand = kind.name == LETTERS;
        let cancel = kind.name == "endless" || (!by_hand && rng.u8(..12) == 0);
        // A cancel or a deadline would let a paused run go on, and rightly.
        let pause = !cancel && !by_hand && !["overdue", "stale"].contains(&kind.name) && rng.u8(..5) == 0;
        // An endless run would have to be cancelled again; a broad one is revived row by row, in one transaction that
        // hardly survives that many faults.
        let reopens = (cancel || kind.ends != SUCCESS) && !["endless", "stale"].contains(&kind.name) && !by_hand;
        let reopen = reopens && !is_broad && rng.u8(..3) == 0;
        Order { kind, submission, cancel, pause, reopen, from_the_start: rng.bool() }
    }
}
