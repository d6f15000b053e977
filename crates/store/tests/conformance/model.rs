//! Random operations on the real store, held against the pure model of a run after every step.
//!
//! A case is a small random workflow and a sequence of random operations, both drawn from a printed seed. The model
//! knows neither limits nor claims of decisions, so two differences are allowed: what is ready may be behind a gate,
//! and what waits for a decision may be held while the run is paused.

use std::collections::BTreeMap;

use fastrand::Rng;
use mainspring_core::advance::{Board, Ending, Reopening};
use mainspring_core::plan::Decision;
use mainspring_core::retry::{OnExhausted, Retry};
use mainspring_core::rule::TriggerRule;
use mainspring_core::state::{RunState, TaskState};
use mainspring_core::work::Failure;
use mainspring_core::workflow::{Stage, Workflow};
use mainspring_core::{TaskKey, workflow::Task};
use mainspring_store::{ContinuedAs, Exchange, Flavor, Reopen, TaskRunRow, TaskToken};

use crate::world::{MILLI, SECOND, World, execute, failure, operator};

/// How often the invariants are checked: after every step, or after every n-th.
#[derive(Clone, Copy)]
struct Effort {
    cases: u64,
    steps: usize,
    check_one_in: usize,
}

const SHORT: Effort = Effort { cases: 60, steps: 20, check_one_in: 20 };
const SHORT_ON_SQLITE: Effort = Effort { cases: 200, ..SHORT };
const LONG: Effort = Effort { cases: 3_000, steps: 40, check_one_in: 1 };

#[tokio::test]
async fn random_operations_follow_the_model_on_postgres() {
    play_cases(Flavor::Postgres, 1, SHORT).await;
}

#[tokio::test]
async fn random_operations_follow_the_model_on_sqlite() {
    play_cases(Flavor::Sqlite, 1, SHORT_ON_SQLITE).await;
}

#[tokio::test]
async fn long_random_operations_follow_the_model_on_postgres() {
    play_cases(Flavor::Postgres, fastrand::u64(..) >> 16, LONG).await;
}

#[tokio::test]
async fn long_random_operations_follow_the_model_on_sqlite() {
    play_cases(Flavor::Sqlite, fastrand::u64(..) >> 16, LONG).await;
}

#[expect(clippy::print_stderr, reason = "the seed of a failing case is the last one printed")]
async fn play_cases(flavor: Flavor, first_seed: u64, effort: Effort) {
    // By hand: MAINSPRING_SEED=n begins there, MAINSPRING_CASES=n plays n cases.
    let given = |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let first_seed = given("MAINSPRING_SEED").unwrap_or(first_seed);
    let seeds = first_seed..first_seed + given("MAINSPRING_CASES").unwrap_or(effort.cases);
    let mut world = World::new(flavor).await;
    world.store.set_pool(world.now, "default", "p", Some(2)).await.unwrap();
    for seed in seeds {
        eprintln!("seed {seed}");
        play_case(&mut world, seed, effort).await;
        // What is over goes, so that checking stays cheap.
        execute(&world.db, "DELETE FROM dead_letters").await;
        world.store.purge_runs(i64::MAX, None).await.unwrap();
    }
}

/// A run in the store and in the model.
struct Case<'w> {
    board: Board<'w>,
    workflow: &'w Workflow,
    rng: Rng,
    /// Tokens that were handed in: a session that uses them again is refused, or acknowledged without effect.
    used: Vec<TaskToken>,
    log: Vec<String>,
}

async fn play_case(w: &mut World, seed: u64, effort: Effort) {
    let mut rng = Rng::with_seed(seed);
    let workflow = draw_workflow(&mut rng, seed);
    let version = w.version_of(workflow.clone(), "").await;
    let new = w.new_run(&version).await;
    w.create(new).await;
    let mut case = Case { board: Board::new(&workflow), workflow: &workflow, rng, used: Vec::new(), log: Vec::new() };
    case.compare(w).await;
    for _ in 0..effort.steps {
        case.step(w).await;
        case.compare(w).await;
        if case.rng.usize(..effort.check_one_in) == 0 {
            w.check_now().await;
        }
    }
    case.drive_to_the_end(w).await;
    w.check().await;
}

impl Case<'_> {
    async fn step(&mut self, w: &mut World) {
        let kind = self.rng.u32(..100);
        match kind {
            0..40 => self.exchange(w, false).await,
            40..60 => self.decide(w, false).await,
            60..68 => self.promote(w).await,
            68..74 => self.lose(w).await,
            74..80 => self.repeat_a_used_token(w).await,
            80..84 => self.cancel(w).await,
            84..90 => self.pause(w).await,
            90..95 => self.resume(w).await,
            _ => self.reopen(w).await,
        }
        w.proceed().await;
    }

    /// Hands in some of what is held and claims some more, in one unit.
    async fn exchange(&mut self, w: &mut World, succeed: bool) {
        let mut exchange = w.empty_exchange();
        let held: Vec<TaskToken> = w.held.values().map(|claim| claim.token).collect();
        // One at a time now and then: PostgreSQL has a short way for a lone success.
        let most = if self.rng.bool() { 1 } else { held.len() };
        for token in held {
            if exchange.ended.len() + exchange.continued.len() == most || (!succeed && self.rng.u32(..3) == 0) {
                continue;
            }
            let index = token.key.index as usize;
            let (name, ending) = if succeed { ("success", Ending::Success) } else { self.draw_ending() };
            self.log.push(format!("{name} {index}"));
            match &ending {
                Ending::Success => exchange.ended.push(w.ended(token, TaskState::Success)),
                Ending::Cancelled => exchange.ended.push(w.ended(token, TaskState::Cancelled)),
                Ending::Failed(failure) if failure.permanent => exchange.ended.push(w.ended(token, TaskState::Failed)),
                Ending::Failed(_) => {
                    exchange.continued.push(w.continued(token, ContinuedAs::Retry { due_at: w.now + SECOND }));
                }
                _ => exchange.continued.push(w.continued(token, ContinuedAs::Released)),
            }
            self.board.finish(index, ending).unwrap_or_else(|refused| panic!("{refused}: {}", self.story()));
            self.used.push(token);
        }
        exchange.want = w.wants(if succeed { 10 } else { self.rng.i32(..4) }).await;
        let reply = w.exchange(&exchange).await;
        assert!(reply.fenced.is_empty(), "{:?} were refused: {}", reply.fenced, self.story());
        for claim in &reply.claimed {
            let index = claim.token.key.index as usize;
            self.log.push(format!("start {index}"));
            self.board.start(index).unwrap_or_else(|refused| panic!("claimed {index}: {refused}: {}", self.story()));
        }
    }

    fn draw_ending(&mut self) -> (&'static str, Ending) {
        match self.rng.u32(..10) {
            0..4 => ("success", Ending::Success),
            4..7 => ("failure", Ending::Failed(failure())),
            7 => ("permanent failure", Ending::Failed(Failure { permanent: true, ..failure() })),
            8 => ("release", Ending::Released),
            _ => ("cancelled", Ending::Cancelled),
        }
    }

    async fn decide(&mut self, w: &mut World, start: bool) {
        w.take_decisions().await;
        let waiting: Vec<TaskKey> = w.deciding.keys().copied().collect();
        for key in waiting {
            let decision = match self.rng.u32(..6) {
                _ if start => Decision::Start,
                0 => continue,
                1 => Decision::Skip,
                2 => Decision::Fail(failure()),
                _ => Decision::Start,
            };
            self.log.push(format!("decide {} {decision:?}", key.index));
            w.decide(&w.task_name(key), decision.clone()).await;
            self.board
                .decide(key.index as usize, &decision)
                .unwrap_or_else(|refused| panic!("decided {}: {refused}: {}", key.index, self.story()));
        }
    }

    async fn promote(&mut self, w: &mut World) {
        self.log.push("promote".into());
        w.pass(2 * SECOND);
        w.store.promote_due(w.now, 1_000).await.unwrap();
        let due: Vec<usize> = self.board.in_state(TaskState::Retrying).collect();
        for index in due {
            self.board.due(index).unwrap();
        }
    }

    async fn lose(&mut self, w: &mut World) {
        self.log.push("lose the session".into());
        let held: Vec<TaskToken> = w.held.values().map(|claim| claim.token).collect();
        w.lose_session().await;
        for token in held {
            self.board.finish(token.key.index as usize, Ending::Lost).unwrap();
            self.used.push(token);
        }
    }

    /// An old token, and one that was never given out, change nothing.
    async fn repeat_a_used_token(&mut self, w: &mut World) {
        let Some(old) = self.rng.choice(self.used.iter()).copied() else { return };
        self.log.push(format!("repeat {}.{}", old.key.index, old.attempt));
        let invented = TaskToken { attempt: old.attempt + 100, ..old };
        let exchange = Exchange {
            ended: vec![w.ended(old, TaskState::Success), w.ended(invented, TaskState::Success)],
            continued: vec![w.continued(old, ContinuedAs::Released)],
            ..w.empty_exchange()
        };
        let reply = w.lane.exchange(&exchange).await.unwrap();
        assert!(reply.fenced.contains(&invented), "{}", self.story());
    }

    async fn cancel(&mut self, w: &mut World) {
        if self.board.run_state().is_terminal() {
            return;
        }
        self.log.push("cancel".into());
        w.cancel().await;
        // A paused run runs again, to its end.
        _ = self.board.resume();
        self.board.cancel().unwrap();
        // The model ends what is being decided at once, the store when the decision comes in.
        let late: Vec<TaskKey> = w.deciding.keys().copied().collect();
        for key in late {
            if self.board.state(key.index as usize).is_terminal() {
                w.decide(&w.task_name(key), Decision::Start).await;
            }
        }
    }

    async fn pause(&mut self, w: &mut World) {
        let summary = w.store.run_summary(w.run).await.unwrap();
        if summary.state == RunState::Running && !summary.cancelling {
            self.log.push("pause".into());
            w.pause().await;
            self.board.pause().unwrap();
        }
    }

    async fn resume(&mut self, w: &mut World) {
        if self.board.run_state() == RunState::Paused {
            self.log.push("resume".into());
            w.resume().await;
            self.board.resume().unwrap();
        }
    }

    /// Retries everything that failed or was cancelled.
    async fn reopen(&mut self, w: &mut World) {
        let tasks = || self.workflow.tasks.iter().enumerate();
        let again =
            |task: &(usize, &Task)| matches!(self.board.state(task.0), TaskState::Failed | TaskState::Cancelled);
        // Later stages follow by themselves.
        let first = tasks().filter(again).map(|task| task.1.stage).min();
        let failed: Vec<usize> =
            tasks().filter(again).filter(|task| Some(task.1.stage) == first).map(|(index, _)| index).collect();
        if !matches!(self.board.run_state(), RunState::Failed | RunState::Cancelled) || failed.is_empty() {
            return;
        }
        self.board.reopen_all(&failed, Reopening::Retry).unwrap();
        self.log.push("reopen".into());
        let id = w.id();
        w.store.reopen_run(w.now, id, w.run, self.workflow, &Reopen::Failed, &operator()).await.unwrap();
        w.pass(MILLI);
    }

    async fn drive_to_the_end(&mut self, w: &mut World) {
        self.resume(w).await;
        for _ in 0..100 {
            if self.board.run_state().is_terminal() {
                self.compare(w).await;
                return;
            }
            self.promote(w).await;
            self.decide(w, true).await;
            self.exchange(w, true).await;
            w.proceed().await;
        }
        panic!("the run does not end: {}", self.story());
    }

    async fn compare(&self, w: &World) {
        let rows = w.store.task_runs(w.run).await.unwrap();
        let rows: BTreeMap<usize, &TaskRunRow> = rows.iter().map(|row| (row.key.index as usize, row)).collect();
        let run = w.run_state().await;
        assert_eq!(run, self.board.run_state(), "the run: {}", self.story());
        for (index, slot) in self.board.slots().iter().enumerate() {
            let Some(row) = rows.get(&index) else {
                // Stages that did not begin have no rows; the model may know already that they never will.
                assert!(!run.is_terminal(), "task {index} has no row: {}", self.story());
                assert!(
                    matches!(slot.state, TaskState::Pending | TaskState::Skipped | TaskState::Cancelled),
                    "task {index} has no row but is {}: {}",
                    slot.state,
                    self.story()
                );
                continue;
            };
            let state = if row.state == TaskState::Gated { TaskState::Ready } else { row.state };
            let held_undecided =
                run == RunState::Paused && state == TaskState::Held && slot.state == TaskState::Deciding;
            assert!(
                state == slot.state || held_undecided,
                "task {index} is {state}, not {}: {}",
                slot.state,
                self.story()
            );
            assert_eq!(
                (row.attempt as u32, row.lost as u32),
                (slot.attempts, slot.lost),
                "task {index}: {}",
                self.story()
            );
            // A condition that fails counts as a failure of the row, though no attempt failed.
            let by_condition = u32::from(state == TaskState::Failed && self.workflow.tasks[index].condition.is_some());
            assert!(
                (slot.failures..=slot.failures + by_condition).contains(&(row.failures as u32)),
                "task {index} failed {} times: {}",
                row.failures,
                self.story()
            );
        }
    }

    fn story(&self) -> String {
        let tasks: Vec<String> = self
            .workflow
            .tasks
            .iter()
            .enumerate()
            .map(|(index, task)| {
                format!(
                    "{index}: {} needs {:?} {} attempts {} max_lost {} if {} pool {} {}",
                    task.stage,
                    task.needs,
                    task.rule,
                    task.retry.attempts,
                    task.max_lost,
                    task.condition.is_some(),
                    task.pool.is_some(),
                    task.on_exhausted
                )
            })
            .collect();
        format!("\n{}\nafter: {}\nmodel: {:?}", tasks.join("\n"), self.log.join(", "), self.board.slots())
    }
}

fn draw_workflow(rng: &mut Rng, seed: u64) -> Workflow {
    let mut workflow = mainspring_core::parse("{name: w, tasks: {a: {run: x}}}").unwrap();
    workflow.name = format!("w{seed}");
    let template = workflow.tasks.remove(0);
    let mut stages: Vec<Stage> = (0..rng.usize(1..9))
        .map(|_| match rng.u32(..8) {
            0 => Stage::OnFailure,
            1 => Stage::Finally,
            _ => Stage::Main,
        })
        .collect();
    stages.sort();
    for (index, stage) in stages.iter().enumerate() {
        let first = stages.partition_point(|other| other < stage);
        let mut needs: Vec<i32> = (0..rng.usize(..4))
            .filter(|_| index > first)
            .map(|_| rng.usize(first..index.max(first + 1)) as i32)
            .collect();
        needs.sort_unstable();
        needs.dedup();
        let mut task = template.clone();
        task.name = format!("t{index}");
        task.stage = *stage;
        task.rule = if needs.is_empty() {
            TriggerRule::AllSuccess
        } else {
            TriggerRule::ALL[rng.usize(..TriggerRule::ALL.len())]
        };
        task.condition = (rng.u32(..5) == 0).then(|| "x".to_owned());
        task.on_exhausted = OnExhausted::ALL[rng.usize(..OnExhausted::ALL.len())];
        task.retry = Retry { attempts: rng.u16(1..4), retryable: rng.u32(..8) > 0, ..Retry::default() };
        task.max_lost = rng.u16(..3);
        task.pool = (rng.u32(..5) == 0).then(|| "p".to_owned());
        task.needs = needs.clone();
        workflow.tasks.push(task);
        for need in needs {
            workflow.tasks[need as usize].dependents.push(index as i32);
        }
    }
    workflow
}
