//! What a test sees of its world: names, states, and whether every invariant holds.

use mainspring_core::state::RunState;
use mainspring_core::{RunId, TaskKey, Workflow};
use mainspring_store::{RunEvent, TaskToken};
use mainspring_testkit::invariants::{self, Violation};

use crate::world::World;

impl World {
    pub(crate) fn key(&self, name: &str) -> TaskKey {
        let (name, item) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, item)) => (name, item.parse().expect("a number in brackets")),
            None => (name, -1),
        };
        let workflow = self.workflow(self.run);
        let index = workflow.task_index(name).unwrap_or_else(|| panic!("no task {name}"));
        TaskKey { item, ..TaskKey::new(self.run, index as i32) }
    }

    pub(crate) fn token(&self, name: &str) -> TaskToken {
        let key = self.key(name);
        self.held.get(&key).unwrap_or_else(|| panic!("{name} is not claimed")).token
    }

    pub(crate) fn workflow(&self, run: RunId) -> &Workflow {
        &self.workflows[&self.versions[&run]]
    }

    pub(crate) fn task_name(&self, key: TaskKey) -> String {
        let name = &self.workflow(key.run).tasks[key.index as usize].name;
        if key.item < 0 { name.clone() } else { format!("{name}[{}]", key.item) }
    }

    /// The name of the task; with the workflow's before it if it is not of the run that names refer to.
    pub(crate) fn name(&self, key: TaskKey) -> String {
        let task = self.task_name(key);
        if key.run == self.run { task } else { format!("{}.{task}", self.workflow(key.run).name) }
    }

    pub(crate) async fn run_state(&self) -> RunState {
        self.store.run_summary(self.run).await.unwrap().state
    }

    /// The run's state and those of its tasks: `running a=success b=ready`. Tasks without a row are left out.
    pub(crate) async fn states(&self) -> String {
        let mut shown = self.run_state().await.to_string();
        for row in self.store.task_runs(self.run).await.unwrap() {
            shown.push_str(&format!(" {}={}", self.task_name(row.key), row.state));
        }
        shown
    }

    pub(crate) async fn expect(&self, states: &str) {
        assert_eq!(self.states().await, states);
    }

    /// Every invariant holds; those at rest too if every run has ended.
    pub(crate) async fn check(&self) {
        self.check_now().await;
        self.check_logs().await;
        self.proceed().await;
        let open = self.store.run_counts().await.unwrap().iter().any(|count| !count.state.is_terminal());
        if !open {
            self.refuse(&invariants::check_at_rest(self.db.url()).await.unwrap()).await;
        }
    }

    /// What holds at any time does.
    pub(crate) async fn check_now(&self) {
        self.refuse(&invariants::check(self.db.url()).await.unwrap()).await;
    }

    /// A subscriber of a run sees every number once and in order, whatever the size of the pages.
    pub(crate) async fn check_logs(&self) {
        for run in self.versions.keys() {
            let Ok(mark) = self.store.run_summary(*run).await else { continue };
            let pages: &[i64] = if mark.seq > 100 { &[1_000] } else { &[1, 3, 1_000] };
            for page in pages {
                let numbers: Vec<i64> = self.log(*run, *page).await.iter().map(|event| event.seq).collect();
                let expected: Vec<i64> = (1..=mark.seq).collect();
                assert_eq!(numbers, expected, "the log of a run that is {} in pages of {page}", mark.state);
            }
        }
    }

    /// The whole log of a run, page by page.
    pub(crate) async fn log(&self, run: RunId, page: i64) -> Vec<RunEvent> {
        let mut events: Vec<RunEvent> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.seq);
            let log = self.store.run_log(run, after, page).await.unwrap();
            let complete = log.is_complete(after);
            assert!(complete || log.events.len() as i64 == page, "a page is full or the last");
            events.extend(log.events);
            if complete {
                return events;
            }
        }
    }

    async fn refuse(&self, violations: &[Violation]) {
        let shown: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{}\nstates: {}", shown.join("\n"), self.states_or_none().await);
    }

    async fn states_or_none(&self) -> String {
        if self.run.is_nil() { "none".to_owned() } else { self.states().await }
    }
}
