//! Draws workflows.

use fastrand::Rng;

use super::plan::{Condition, Node, Plan, Repeat, Stage};

const RULES: [&str; 8] = [
    "all_success",
    "all_done",
    "all_failed",
    "one_success",
    "one_failed",
    "none_failed",
    "always",
    "none_failed_min_one_success",
];
/// Under these rules a task starts only when everything that it needs has ended.
const PATIENT: [&str; 6] =
    ["all_success", "all_done", "all_failed", "none_failed", "always", "none_failed_min_one_success"];

pub(super) fn plan(random: &mut Rng) -> Plan {
    let main = random.usize(2..=12);
    let mut tasks = nodes(random, Stage::Main, main, 0);
    for (stage, chance) in [(Stage::OnFailure, 0.3), (Stage::OnSuccess, 0.3), (Stage::Finally, 0.3)] {
        if random.f64() < chance {
            let count = random.usize(1..=3);
            let before = tasks.len();
            tasks.extend(nodes(random, stage, count, before));
        }
    }
    // Everything of the main stage has ended when a later one begins.
    for task in tasks.iter_mut().skip(main) {
        if random.f64() < 0.2 {
            task.condition = Condition::StatusIs(random.usize(..main), status(random));
        }
    }
    Plan { tasks }
}

/// Tasks of one stage; the first will have the number `first`.
fn nodes(random: &mut Rng, stage: Stage, count: usize, first: usize) -> Vec<Node> {
    // The order of the text is not that of the edges.
    let mut order: Vec<usize> = (0..count).collect();
    random.shuffle(&mut order);
    let density = random.f64() * 0.6;
    (0..count)
        .map(|task| {
            let earlier: Vec<usize> = (0..count).filter(|other| order[*other] < order[task]).collect();
            let needs: Vec<usize> =
                earlier.into_iter().filter(|_| random.f64() < density).map(|other| other + first).collect();
            node(random, stage, needs)
        })
        .collect()
}

fn node(random: &mut Rng, stage: Stage, needs: Vec<usize>) -> Node {
    let rule = if random.bool() { "all_success" } else { random.choice(RULES).unwrap_or("always") };
    let patient = !needs.is_empty() && PATIENT.contains(&rule);
    let condition = match random.u32(..10) {
        0 => Condition::Constant(random.bool()),
        1 | 2 if patient => Condition::StatusIs(needs[random.usize(..needs.len())], status(random)),
        _ => Condition::None,
    };
    let repeat = match random.u32(..10) {
        0 | 1 => Repeat::Times(random.usize(..4)),
        3 => Repeat::Matrix(random.usize(1..3), random.usize(1..3)),
        2 if patient => Repeat::Output(needs[random.usize(..needs.len())]),
        _ => Repeat::Once,
    };
    Node {
        stage,
        needs,
        rule,
        condition,
        repeat,
        attempts: random.u32(1..=3),
        retryable: random.f64() < 0.9,
        on: (random.f64() < 0.2).then_some("a"),
        steps: (random.f64() < 0.05).then(|| steps(random)),
        exit_codes: random.bool(),
        exhausted: random.choice(["dead_letter", "fail", "continue"]).unwrap_or("fail"),
        max_parallel: (random.f64() < 0.3).then(|| random.u32(1..=2)),
    }
}

/// Scripts that share an attempt.
fn steps(random: &mut Rng) -> Vec<(i32, bool)> {
    let code = |random: &mut Rng| random.choice([0, 0, 0, 1, 3, 99]).unwrap_or(0);
    (0..random.usize(1..=3)).map(|_| (code(random), random.f64() < 0.3)).collect()
}

fn status(random: &mut Rng) -> &'static str {
    random.choice(["success", "success", "failed", "skipped", "upstream_failed"]).unwrap_or("success")
}
