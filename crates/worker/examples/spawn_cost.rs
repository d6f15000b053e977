//! What starting a process through the pool costs, against `make -j2` and `xargs -P2` doing the same.
//!
//! `cargo run --release -p mainspring-worker --example spawn_cost [ROUNDS]`
#![expect(clippy::print_stdout, reason = "a program whose purpose is to print")]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainspring_core::work::{Assignment, Clock, Completion, LogChunk, Order, OrderAction, Outcome, ProcessOrder};
use mainspring_core::workflow::Limits;
use mainspring_core::{Micros, TaskKey};
use mainspring_worker::{Pool, PoolConfig, Registry};
use tokio::sync::mpsc;

#[derive(Debug)]
struct Monotonic(Instant);

impl Clock for Monotonic {
    fn now(&self) -> Micros {
        self.0.elapsed().as_micros() as i64
    }
}

fn assignment(index: usize, script: &str) -> Assignment {
    let key: TaskKey = format!("0190a1b2-0000-7000-8000-000000000001.{index}").parse().expect("a task run id");
    let action = OrderAction::Run { script: script.into(), shell: None, cwd: None };
    let order = Order {
        namespace: "default".into(),
        workflow: "bench".into(),
        task: "task".into(),
        action,
        env: Vec::new(),
        timeout_ms: Some(300_000),
        files: None,
        artifacts: Vec::new(),
        limits: Limits::default(),
        process: ProcessOrder::default(),
        on_store_loss: None,
        secrets: Vec::new(),
    };
    Assignment { key, session: 1, attempt: 1, generation: 1, order: Arc::new(order), trace: None }
}

async fn through_the_pool(
    pool: &Pool,
    done: &mut mpsc::UnboundedReceiver<Completion>,
    script: &str,
    n: usize,
    at_once: usize,
) {
    let mut todo = (0..n).map(|index| assignment(index, script));
    pool.assign(todo.by_ref().take(at_once).collect());
    for _ in 0..n {
        let completion = done.recv().await.expect("the pool reports");
        assert!(matches!(completion.outcome, Outcome::Success { .. }), "{completion:?}");
        pool.assign(todo.by_ref().take(1).collect());
    }
}

fn floor(command: &str) {
    assert!(Command::new("sh").args(["-c", command]).status().is_ok_and(|status| status.success()));
}

/// Time of the clock, and of the processors: on a busy machine only the second tells anything.
struct Stopwatch {
    begin: Instant,
    ticks: u64,
}

impl Stopwatch {
    fn start() -> Self {
        Self { begin: Instant::now(), ticks: processor_ticks() }
    }

    fn stop(self, name: &str) {
        let processors = (processor_ticks() - self.ticks) * 10;
        println!(
            "{name:<22} {:>8.1} ms {processors:>8} ms of the processors",
            self.begin.elapsed().as_secs_f64() * 1e3
        );
    }
}

/// In hundredths of a second, with all children that have ended.
fn processor_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after_name = stat.rsplit(')').next().expect("fields");
    after_name.split_whitespace().skip(11).take(4).map(|field| field.parse::<u64>().expect("a number")).sum()
}

fn makefile(many: usize, chain: usize) -> String {
    let mut text = String::from(".PHONY: many chain\n");
    for number in 0..many {
        text += &format!("many: m{number}\nm{number}:\n\t@true\n");
    }
    for number in 0..chain {
        let after = if number > 0 { format!("c{}", number - 1) } else { String::new() };
        text += &format!("c{number}: {after}\n\t@true\n");
    }
    text + &format!("chain: c{}\n", chain - 1)
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("watchdog") {
        return mainspring_worker::watchdog::main().expect("the watchdog reads its pipe");
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().expect("a runtime").block_on(measure());
}

async fn measure() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(5);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("Makefile");
    std::fs::write(&file, makefile(1000, 40)).expect("a makefile");
    let watchdog = Some(vec![std::env::current_exe().expect("own path").into(), "watchdog".into()]);
    let (completions, mut done) = mpsc::unbounded_channel();
    let (logs, mut lines) = mpsc::channel::<LogChunk>(100);
    tokio::spawn(async move { while lines.recv().await.is_some() {} });
    let config = PoolConfig { watchdog, ..PoolConfig::default() };
    let clock = Arc::new(Monotonic(Instant::now()));
    let pool = Pool::start(config, clock, Registry::default(), completions, logs).expect("a pool");
    let make = |target: &str| floor(&format!("make -s -j2 -f {} {target}", file.display()));
    for _ in 0..rounds {
        let watch = Stopwatch::start();
        make("many");
        watch.stop("make -j2, 1000");
        let watch = Stopwatch::start();
        floor("seq 1000 | xargs -P2 -n1 sh -c true");
        watch.stop("xargs -P2 sh -c true");
        for (name, script, n, at_once) in [
            ("pool: true, 8 at once", "true", 1000, 8),
            ("pool: true, 2 at once", "true", 1000, 2),
            ("pool: bash, 8 at once", "true;", 1000, 8),
            ("pool: echo, 8 at once", "echo hello", 1000, 8),
            ("pool: chain of 40", "true", 40, 1),
        ] {
            let watch = Stopwatch::start();
            through_the_pool(&pool, &mut done, script, n, at_once).await;
            watch.stop(name);
        }
        let watch = Stopwatch::start();
        make("chain");
        watch.stop("make -j2, chain of 40");
        println!();
    }
    pool.shutdown(Duration::from_secs(1)).await;
}
