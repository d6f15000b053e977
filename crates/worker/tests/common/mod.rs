//! A pool with everything around it, for tests on real processes.
#![allow(dead_code, unreachable_pub, clippy::allow_attributes, reason = "each test file uses its own part of this")]

pub mod hostile;
pub mod process;
pub mod server;

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mainspring_core::work::{
    Artifact, ArtifactContent, Assignment, Clock, Completion, Failure, HttpOrder, LogChunk, LogLine, LogStream, Order,
    OrderAction, Outcome, ProcessOrder,
};
use mainspring_core::workflow::{HttpExpect, Limits};
use mainspring_core::{Micros, TaskKey};
use mainspring_worker::{Pool, PoolConfig, Registry};
use serde_json::Value;
use tokio::sync::mpsc;

/// Far beyond anything a healthy machine needs, however busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Starts at an arbitrary instant and runs with the monotonic clock.
#[derive(Debug)]
pub struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Micros {
        1_700_000_000_000_000 + self.0.elapsed().as_micros() as i64
    }
}

pub struct Rig {
    pub pool: Pool,
    pub completions: mpsc::UnboundedReceiver<Completion>,
    pub chunks: Arc<Mutex<Vec<LogChunk>>>,
    pub root: tempfile::TempDir,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(PoolConfig::default(), Registry::default())
    }

    pub fn with(config: PoolConfig, registry: Registry) -> Self {
        let (rig, mut logs) = Self::without_log(config, registry, 16);
        let chunks = Arc::clone(&rig.chunks);
        tokio::spawn(async move {
            while let Some(chunk) = logs.recv().await {
                chunks.lock().unwrap().push(chunk);
            }
        });
        rig
    }

    /// The log is read by the caller, or not at all.
    pub fn without_log(mut config: PoolConfig, registry: Registry, room: usize) -> (Self, mpsc::Receiver<LogChunk>) {
        let root = tempfile::tempdir().unwrap();
        config.root = Some(root.path().to_owned());
        let (completions, receiver) = mpsc::unbounded_channel();
        let (logs, log_receiver) = mpsc::channel(room);
        let clock = Arc::new(TestClock(Instant::now()));
        let pool = Pool::start(config, clock, registry, completions, logs).unwrap();
        (Self { pool, completions: receiver, chunks: Arc::default(), root }, log_receiver)
    }

    /// Starts without waiting.
    pub fn start(&self, order: Order) -> Assignment {
        let assignment = assignment(order);
        self.pool.assign(vec![assignment.clone()]);
        assignment
    }

    pub async fn next(&mut self) -> Completion {
        tokio::time::timeout(DEADLINE, self.completions.recv()).await.expect("a completion in time").unwrap()
    }

    pub async fn run(&mut self, order: Order) -> Outcome {
        self.start(order);
        self.next().await.outcome
    }

    pub async fn failure(&mut self, order: Order) -> Failure {
        match self.run(order).await {
            Outcome::Failed(failure) => failure,
            other => panic!("not a failure: {other:?}"),
        }
    }

    /// Runs a script that must succeed, and gives what it wrote to its output.
    pub async fn output(&mut self, order: Order) -> Option<Value> {
        match self.run(order).await {
            Outcome::Success { output } => output,
            other => panic!("not a success: {other:?}\n{:?}", self.lines()),
        }
    }

    /// All lines so far. After a completion its log has been handed over, but perhaps not yet been collected.
    pub fn lines(&self) -> Vec<LogLine> {
        self.chunks.lock().unwrap().iter().flat_map(|chunk| chunk.lines.clone()).collect()
    }

    pub async fn until_lines(&self, enough: impl Fn(&[LogLine]) -> bool) -> Vec<LogLine> {
        eventually("log lines", || Some(self.lines()).filter(|lines| enough(lines))).await
    }

    pub async fn until_line(&self, text: &str) -> LogLine {
        let find = |line: &LogLine| line.text.contains(text);
        eventually(text, || self.lines().into_iter().find(find)).await
    }

    pub async fn until_text(&self, stream: LogStream, count: usize) -> Vec<String> {
        let texts = || -> Vec<String> {
            self.lines().into_iter().filter(|line| line.stream == stream).map(|line| line.text).collect()
        };
        eventually("lines of a stream", || Some(texts()).filter(|texts| texts.len() >= count)).await
    }

    /// Nothing of the attempts is left on disk but empty directories, for later ones to use.
    pub async fn until_swept(&self) {
        let is_empty = |path: &Path| std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        eventually("an empty root", || {
            let mut entries = std::fs::read_dir(self.root.path()).ok()?.flatten();
            let pool = entries.find(|entry| entry.file_name().to_string_lossy().starts_with("mainspring-"))?;
            let mut entries = std::fs::read_dir(pool.path()).ok()?.flatten();
            entries.all(|entry| is_empty(&entry.path())).then_some(())
        })
        .await;
    }
}

pub fn assignment(order: Order) -> Assignment {
    static INDEX: AtomicI32 = AtomicI32::new(0);
    let index = INDEX.fetch_add(1, Ordering::Relaxed);
    let key: TaskKey = format!("0190a1b2-0000-7000-8000-000000000001.{index}").parse().unwrap();
    Assignment { key, session: 7, attempt: 1, generation: 1, order: Arc::new(order), trace: None }
}

pub fn order(action: OrderAction) -> Order {
    Order {
        namespace: "default".into(),
        workflow: "test".into(),
        task: "task".into(),
        action,
        env: Vec::new(),
        timeout_ms: None,
        files: None,
        artifacts: Vec::new(),
        limits: Limits::default(),
        process: ProcessOrder::default(),
        on_store_loss: None,
        secrets: Vec::new(),
    }
}

/// What an artifact holds.
pub fn content(artifact: &Artifact) -> Vec<u8> {
    match &artifact.content {
        ArtifactContent::Memory(content) => content.clone(),
        ArtifactContent::File(file) => std::fs::read(&file.path).unwrap(),
    }
}

pub fn script(text: &str) -> Order {
    order(OrderAction::Run { script: text.into(), shell: None, cwd: None })
}

pub fn script_for(shell: &str, text: &str) -> Order {
    order(OrderAction::Run { script: text.into(), shell: Some(shell.into()), cwd: None })
}

/// A GET that expects success, to be changed at will.
pub fn get(url: impl Into<String>) -> HttpOrder {
    HttpOrder {
        method: "GET".into(),
        url: url.into(),
        headers: Vec::new(),
        query: Vec::new(),
        body: None,
        auth: None,
        expect: HttpExpect::default(),
        follow_redirects: 5,
        max_response_bytes: 1024 * 1024,
    }
}

pub fn http(request: HttpOrder) -> Order {
    order(OrderAction::Http(request))
}

pub fn function(handler: &str, payload: Value) -> Order {
    order(OrderAction::Function { handler: handler.into(), payload })
}

/// Asks again and again until there is an answer.
pub async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begin.elapsed() < DEADLINE, "no {what} within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A zombie has ended, even before its parent reaps it.
pub fn is_running(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

pub async fn until_gone(pid: i32) {
    eventually("end of a process", || (!is_running(pid)).then_some(())).await;
}

/// The numbers in a file, once it has as many lines as that.
pub async fn until_pids(path: &Path, count: usize) -> Vec<i32> {
    eventually("process ids", || {
        let text = std::fs::read_to_string(path).ok()?;
        let complete = text.ends_with('\n') && text.lines().count() >= count;
        complete.then(|| text.lines().map(|line| line.trim().parse().unwrap()).collect())
    })
    .await
}

pub fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
