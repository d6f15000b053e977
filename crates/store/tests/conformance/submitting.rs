//! Submissions that start first tasks in the unit that makes their runs.

use mainspring_core::state::TaskState;
use mainspring_store::{Error, Exchange, KeptAnswer, PlainSubmission, RequestKey, Resolution, VersionRef};

use crate::conformance;
use crate::world::{World, execute};

const TWO: &str = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}}}";

conformance! {
    async fn a_new_run_starts_in_the_unit_that_makes_it(w: &mut World) {
        let version = w.version(TWO).await;
        assert_eq!(version.first_routes.iter().map(|(_, count)| count).sum::<i32>(), 1);
        let unit = submissions(w, &version, 2).await;
        let started = w.lane.submit(w.now, &unit, &w.wants(5).await).await.unwrap();
        assert_eq!((started.claimed.len(), started.left), (2, false));
        w.expect("running a=running b=pending").await;
        w.hold(&started.claimed);
        assert!(w.claim(5).await.is_empty(), "nothing of it is in the queue");
        let ended = w.held.values().map(|claim| w.ended(claim.token, TaskState::Success)).collect();
        w.exchange(&Exchange { ended, want: w.wants(5).await, ..w.empty_exchange() }).await;
        w.play(&[], &[]).await;
    }

    async fn what_finds_no_slot_waits_in_the_queue(w: &mut World) {
        let version = w.version("{name: w, tasks: {a: {run: x}, b: {run: x}, c: {run: x, if: 'true'}}}").await;
        let unit = submissions(w, &version, 2).await;
        let started = w.lane.submit(w.now, &unit, &w.wants(3).await).await.unwrap();
        assert_eq!((started.claimed.len(), started.left), (3, true));
        let due: Vec<_> = started.claimed.iter().map(|claim| claim.token.attempt).collect();
        assert_eq!(due, [1, 1, 1]);
        w.hold(&started.claimed);
        assert_eq!(w.claim(5).await, ["b"], "the last is claimed as usual");
        w.play(&[], &[]).await;
    }

    async fn those_of_a_lower_rank_do_not_pass_those_that_wait(w: &mut World) {
        let version = w.version(TWO).await;
        let unit = submissions(w, &version, 1).await;
        let mut wants = w.wants(5).await;
        wants.iter_mut().for_each(|want| want.hand_over_rank = 3);
        let started = w.lane.submit(w.now, &unit, &wants).await.unwrap();
        assert_eq!((started.claimed.len(), started.left), (0, true));
        w.expect("running a=ready b=pending").await;
        w.play(&[], &[]).await;
    }

    async fn an_older_version_is_refused_where_the_newest_is_asked_for(w: &mut World) {
        let old = w.version(TWO).await;
        let mut unit = submissions(w, &old, 1).await;
        unit[0].only_latest = true;
        w.store.submit_plain(w.now, &unit).await.unwrap();
        w.play(&[], &[]).await;
        let new = w.version("{name: w, tasks: {a: {run: other}}}").await;
        let mut unit = submissions(w, &old, 1).await;
        unit[0].only_latest = true;
        let refused = [w.store.submit_plain(w.now, &unit).await.unwrap_err(), w.lane.submit(w.now, &unit, &[]).await.unwrap_err()];
        assert!(refused.iter().all(|error| matches!(error, Error::NotFound { .. })), "{refused:?}");
        let mut unit = submissions(w, &new, 1).await;
        unit[0].only_latest = true;
        w.store.submit_plain(w.now, &unit).await.unwrap();
        w.play(&[], &[]).await;
    }

    async fn a_dead_session_starts_nothing_and_the_runs_are_made(w: &mut World) {
        let version = w.version(TWO).await;
        let unit = submissions(w, &version, 1).await;
        let mut wants = w.wants(5).await;
        wants.iter_mut().for_each(|want| want.session = 999_999);
        let started = w.lane.submit(w.now, &unit, &wants).await.unwrap();
        assert_eq!((started.claimed.len(), started.left), (0, true));
        w.expect("running a=ready b=pending").await;
        w.play(&[], &[]).await;
    }

    async fn a_unit_whose_answer_was_lost_tells_what_it_claimed(w: &mut World) {
        let version = w.version(TWO).await;
        let unit = submissions(w, &version, 1).await;
        // The unit was applied by a lane whose owner does not know it.
        execute(&w.db, "UPDATE lanes SET seq = seq + 1").await;
        let error = w.lane.submit(w.now, &unit, &w.wants(5).await).await.unwrap_err();
        assert!(matches!(error, Error::InDoubt(_)), "{error}");
        assert!(w.store.run_summary(unit[0].run.id).await.is_err(), "nothing of the second try stays");
        assert!(matches!(w.lane.resolve(&[w.session]).await.unwrap(), Resolution::Applied(_)));
        let started = w.lane.submit(w.now, &unit, &w.wants(5).await).await.unwrap();
        let claimed_in = (w.lane.resolve(&[w.session]).await.unwrap(), started);
        assert!(matches!(claimed_in.0, Resolution::NotApplied), "the next unit is another one");
        w.hold(&claimed_in.1.claimed);
        w.play(&[], &[]).await;
    }

    async fn a_key_that_is_taken_refuses_the_whole_unit(w: &mut World) {
        let version = w.version(TWO).await;
        let mut first = submissions(w, &version, 1).await;
        first[0].key = Some(key(w));
        let started = w.lane.submit(w.now, &first, &w.wants(5).await).await.unwrap();
        w.hold(&started.claimed);
        let mut unit = submissions(w, &version, 2).await;
        unit[1].key = Some(key(w));
        let runs = [unit[0].run.id, unit[1].run.id];
        let error = w.lane.submit(w.now, &unit, &w.wants(5).await).await.unwrap_err();
        assert!(matches!(error, Error::KeyTaken), "{error}");
        for run in runs {
            assert!(w.store.run_summary(run).await.is_err(), "nothing of it was made");
        }
        unit.truncate(1);
        w.run = unit[0].run.id;
        let started = w.lane.submit(w.now, &unit, &w.wants(5).await).await.unwrap();
        assert_eq!(started.claimed.len(), 1, "the lane goes on with the same number");
        w.hold(&started.claimed);
        w.play(&[], &[]).await;
    }
}

async fn submissions(w: &mut World, version: &VersionRef, count: usize) -> Vec<PlainSubmission> {
    let mut unit = Vec::new();
    for _ in 0..count {
        let run = w.new_run(version).await;
        assert!(run.is_plain());
        w.made(&run);
        unit.push(PlainSubmission { run, key: None, audit: None, only_latest: false });
    }
    unit
}

fn key(w: &World) -> (RequestKey, KeptAnswer) {
    let key = RequestKey { actor: "a".into(), key: "k".into(), hash: [7; 32], claim: w.id(), at: w.now };
    (key, KeptAnswer { status: 201, content_type: None, body: Some(b"{}".to_vec()) })
}
