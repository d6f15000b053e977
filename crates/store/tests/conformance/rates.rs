//! Rates of pools: never more starts than a window allows, and what waits is let in when the window is over.

use fastrand::Rng;
use mainspring_core::Micros;
use mainspring_core::state::TaskState;
use mainspring_store::{Connect, ContinuedAs, Exchange, PoolRate, RatePass, Store};

use crate::conformance;
use crate::world::{MILLI, SECOND, World, execute, operator};

const MINUTE: Micros = 60 * SECOND;
const FIVE: &str = "{name: w, tasks: {a: {run: x, pool: p}, b: {run: x, pool: p}, c: {run: x, pool: p}, d: {run: x, pool: p}, e: {run: x, pool: p}}}";

async fn set_rate(w: &mut World, slots: Option<i32>, starts: i32, period: Micros) {
    w.store.set_pool_with_rate(w.now, "default", "p", slots, Some((starts, period))).await.unwrap();
}

async fn rate(w: &World) -> PoolRate {
    w.store.pool("default", "p").await.unwrap().rate.unwrap()
}

async fn let_in(w: &mut World) -> RatePass {
    let term = w.lead().await;
    w.store.let_in_by_rate(w.now, &term).await.unwrap()
}

conformance! {
    async fn a_window_lets_in_as_many_as_its_rate(w: &mut World) {
        set_rate(w, None, 2, MINUTE).await;
        assert_eq!(rate(w).await.window_ends(), None, "no window is under way before the first start");
        let began = w.now;
        w.submit(FIVE).await;
        w.expect("running a=ready b=ready c=gated d=gated e=gated").await;
        assert_eq!(rate(w).await, PoolRate { starts: 2, period: MINUTE, used: 2, window_began: Some(began) });
        w.claim(5).await;
        w.succeed("a").await;
        w.succeed("b").await;
        w.expect("running a=success b=success c=gated d=gated e=gated").await;
        w.now = began + MINUTE - 1;
        let none = RatePass { let_in: false, has_more: false, next_end: Some(began + MINUTE) };
        assert_eq!(let_in(w).await, none);
        w.now = began + MINUTE;
        let second = RatePass { let_in: true, has_more: false, next_end: Some(began + 2 * MINUTE) };
        assert_eq!(let_in(w).await, second);
        w.expect("running a=success b=success c=ready d=ready e=gated").await;
        w.now = began + 5 * MINUTE;
        assert_eq!(let_in(w).await.next_end, Some(began + 6 * MINUTE), "a window begins with its first start");
        w.play(&[], &[]).await;
        assert_eq!(rate(w).await.used, 1);
        w.now = began + 6 * MINUTE;
        assert_eq!(let_in(w).await, RatePass::default(), "nothing waits, and no window is under way");
    }

    async fn slots_bound_what_a_window_leaves(w: &mut World) {
        set_rate(w, Some(1), 3, MINUTE).await;
        w.submit(FIVE).await;
        w.expect("running a=ready b=gated c=gated d=gated e=gated").await;
        for name in ["a", "b", "c"] {
            w.claim(5).await;
            w.succeed(name).await;
        }
        w.expect("running a=success b=success c=success d=gated e=gated").await;
        w.pass(MINUTE);
        assert!(let_in(w).await.let_in);
        w.expect("running a=success b=success c=success d=ready e=gated").await;
        w.pass(2 * MINUTE);
        assert!(!let_in(w).await.let_in, "its slot is held");
        w.play(&[], &[]).await;
    }

    async fn every_attempt_counts(w: &mut World) {
        set_rate(w, Some(1), 3, MINUTE).await;
        w.submit("{name: w, tasks: {a: {run: x, pool: p, retry: {attempts: 9}}}}").await;
        w.claim(1).await;
        w.release("a").await;
        assert_eq!(rate(w).await.used, 2);
        w.claim(1).await;
        w.retry("a").await;
        w.pass(SECOND);
        w.store.promote_due(w.now, 10).await.unwrap();
        assert_eq!(rate(w).await.used, 3);
        w.claim(1).await;
        w.lose_session().await;
        w.expect("running a=gated").await;
        w.pass(MINUTE);
        let_in(w).await;
        w.expect("running a=ready").await;
        w.play(&[], &[]).await;
    }

    async fn a_rate_may_change_and_go(w: &mut World) {
        set_rate(w, None, 1, MINUTE).await;
        w.submit(FIVE).await;
        set_rate(w, None, 3, MINUTE).await;
        w.expect("running a=ready b=ready c=ready d=gated e=gated").await;
        set_rate(w, None, 2, MINUTE).await;
        assert_eq!((rate(w).await.used, rate(w).await.left()), (3, 0), "a window that is under way goes on");
        w.store.set_pool(w.now, "default", "p", Some(4)).await.unwrap();
        w.expect("running a=ready b=ready c=ready d=ready e=gated").await;
        assert_eq!(w.store.pool("default", "p").await.unwrap().rate, None);
        assert_eq!(let_in(w).await, RatePass::default());
        w.play(&[], &[]).await;
        for wrong in [(0, MINUTE), (1_000_001, MINUTE), (1, SECOND - 1), (1, 24 * 60 * MINUTE + 1)] {
            assert!(w.store.set_pool_with_rate(w.now, "default", "p", None, Some(wrong)).await.is_err(), "{wrong:?}");
        }
    }

    async fn a_clock_that_is_set_back_does_not_stop_a_pool_for_ever(w: &mut World) {
        w.now += 24 * 60 * MINUTE;
        set_rate(w, None, 2, MINUTE).await;
        w.submit(FIVE).await;
        w.now -= 23 * 60 * MINUTE;
        let back = w.now;
        assert_eq!(let_in(w).await.next_end, Some(back + MINUTE));
        w.expect("running a=ready b=ready c=gated d=gated e=gated").await;
        w.now = back + MINUTE - 1;
        assert!(!let_in(w).await.let_in);
        w.now = back + MINUTE;
        assert!(let_in(w).await.let_in);
        w.expect("running a=ready b=ready c=ready d=ready e=gated").await;
        w.now = back + 2 * MINUTE;
        let_in(w).await;
        w.play(&[], &[]).await;
    }

    async fn a_leader_without_its_term_lets_nothing_in(w: &mut World) {
        set_rate(w, None, 4, MINUTE).await;
        w.submit(FIVE).await;
        let lost = w.lead().await;
        let held = w.lead().await;
        w.pass(MINUTE);
        assert!(!w.store.let_in_by_rate(w.now, &lost).await.unwrap().let_in);
        w.expect("running a=ready b=ready c=ready d=ready e=gated").await;
        assert!(w.store.let_in_by_rate(w.now, &held).await.unwrap().let_in);
        w.play(&[], &[]).await;
    }

    async fn a_rate_holds_over_random_operations(w: &mut World) {
        for seed in 1..=4 {
            random_operations(w, seed).await;
        }
    }
}

/// Whatever happens to task runs of a pool, no window starts more of them than its rate. Starts are counted by a trigger of
/// the database on its own, from the rows that leave their gate.
async fn random_operations(w: &mut World, seed: u64) {
    const STARTS: i32 = 7;
    let period = 2 * SECOND;
    let mut rng = Rng::with_seed(seed);
    set_rate(w, Some(4), STARTS, period).await;
    if seed == 1 {
        count_starts(w).await;
    }
    let rest = "pool: p, retry: {attempts: 30}, max_lost: 50";
    let mut runs = Vec::new();
    for at in 0..6 {
        let needs = if at % 2 == 0 { "" } else { "needs: a, " };
        let yaml = format!(
            "{{name: w{at}, tasks: {{a: {{run: x, {rest}}}, b: {{{needs}run: x, {rest}}}, c: {{run: x, {rest}}}}}}}"
        );
        runs.push(w.submit(&yaml).await);
    }
    for _ in 0..120 {
        w.run = runs[rng.usize(..runs.len())];
        match rng.u32(..20) {
            0..5 => _ = w.claim(rng.i32(1..5)).await,
            5..12 => {
                let Some(token) = rng.choice(w.held.values()).map(|claim| claim.token) else { continue };
                let mut exchange = w.empty_exchange();
                match rng.u32(..4) {
                    0 => exchange.ended.push(w.ended(token, TaskState::Success)),
                    1 => exchange.continued.push(w.continued(token, ContinuedAs::Retry { due_at: w.now + SECOND / 4 })),
                    _ => exchange.continued.push(w.continued(token, ContinuedAs::Released)),
                }
                w.exchange(&exchange).await;
            }
            12 => _ = w.lose_session().await,
            13 => {
                let id = w.id();
                _ = w.store.pause_run(w.now, id, w.run, &operator()).await;
            }
            14 | 15 => {
                let id = w.id();
                _ = w.store.resume_run(w.now, id, w.run, &operator()).await;
            }
            16 => {
                let term = w.lead().await;
                w.store.reconcile_limits(w.now, &term).await.unwrap();
            }
            17 => _ = let_in(w).await,
            _ => _ = w.store.promote_due(w.now, 100).await.unwrap(),
        }
        w.now += rng.i64(0..300 * MILLI);
    }
    w.check_now().await;
    // As after the loss of every process: only what the database holds goes on.
    w.store = Store::connect(&Connect::new(w.db.url())).await.unwrap();
    for run in runs {
        w.run = run;
        let id = w.id();
        _ = w.store.resume_run(w.now, id, run, &operator()).await;
        for _ in 0..400 {
            w.now += SECOND / 4;
            w.store.promote_due(w.now, 100).await.unwrap();
            let_in(w).await;
            w.claim(4).await;
            let held: Vec<_> = w.held.values().map(|claim| claim.token).collect();
            let ended = held.into_iter().map(|token| w.ended(token, TaskState::Success)).collect();
            let exchange = Exchange { ended, ..w.empty_exchange() };
            w.exchange(&exchange).await;
            if w.run_state().await.is_terminal() {
                break;
            }
        }
        assert!(w.run_state().await.is_terminal(), "seed {seed}: {}", w.states().await);
    }
    check_starts(w, STARTS, period, seed).await;
}

/// Writes down every task run that leaves its gate, with the time of the unit that let it in.
async fn count_starts(w: &World) {
    execute(&w.db, "CREATE TABLE seen_starts (at bigint)").await;
    if w.db.url().starts_with("postgres") {
        let note = "BEGIN INSERT INTO seen_starts VALUES (NEW.due_at); RETURN NULL; END";
        execute(&w.db, &format!("CREATE FUNCTION note_start() RETURNS trigger LANGUAGE plpgsql AS '{note}'")).await;
        let on = "AFTER UPDATE OF state ON task_runs FOR EACH ROW WHEN (OLD.state = 5 AND NEW.state = 1)";
        execute(&w.db, &format!("CREATE TRIGGER noting {on} EXECUTE FUNCTION note_start()")).await;
    } else {
        let on = "AFTER UPDATE OF state ON task_runs FOR EACH ROW WHEN OLD.state = 5 AND NEW.state = 1";
        let note = "INSERT INTO seen_starts VALUES (NEW.due_at)";
        execute(&w.db, &format!("CREATE TRIGGER noting {on} BEGIN {note}; END")).await;
    }
}

async fn check_starts(w: &World, starts: i32, period: Micros, seed: u64) {
    let seen = w.db.texts("SELECT CAST(at AS text) FROM seen_starts ORDER BY at").await;
    let (mut end, mut in_window, mut full) = (Micros::MIN, 0, 0);
    for at in seen.iter().map(|at| at.parse::<Micros>().unwrap()) {
        if at >= end {
            (end, in_window) = (at + period, 0);
        }
        in_window += 1;
        full += usize::from(in_window == starts);
        assert!(in_window <= starts, "seed {seed}: more than {starts} starts before {end}");
    }
    assert!(full > 1, "seed {seed}: the rate bounds nothing: {} starts", seen.len());
}
