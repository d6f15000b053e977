use mainspring_core::TaskKey;
use mainspring_core::workflow::SlotClass;
use mainspring_store::Claimed;

use super::*;

fn all() -> Served {
    Served { classes: [true, true, false], remote_as_function: true, ..Served::default() }
}

fn row(id: i32, namespace: &str) -> RouteRow {
    RouteRow::new(id, namespace, "default", "", SlotClass::Function)
}

fn gatherer() -> Gatherer {
    let mut gatherer = Gatherer::new(7, 1, SessionInbox::own(all(), [4, 4, 0]), BTreeMap::new());
    gatherer.learn_routes(&[row(1, "default")], Instant::now());
    gatherer
}

fn claimed(session: i64, index: i32) -> Claimed {
    let key = TaskKey { run: RunId::from_u128(1), index, item: -1 };
    let token = TaskToken { key, session, attempt: 1 };
    Claimed { token, version: 1, failures: 0, generation: 0, route: 1, rank: 0, due_at: 0 }
}

fn ended(session: i64, index: i32) -> Ended {
    Ended {
        token: claimed(session, index).token,
        from: mainspring_core::state::TaskState::Running,
        state: mainspring_core::state::TaskState::Success,
        started_at: None,
        finished_at: 0,
        failure: None,
        output: None,
    }
}

#[test]
fn a_session_is_lost_once_and_nothing_is_exchanged_until_there_is_another() {
    let mut gatherer = gatherer();
    let batch = gatherer.take(0, Instant::now()).unwrap();
    gatherer.applied(&batch, vec![claimed(7, 0)], Instant::now());
    assert!(gatherer.lose(7));
    assert!(!gatherer.lose(7), "another caller is opening a new one already");
    assert_eq!(gatherer.held(), 0);
    gatherer.look_everywhere();
    assert!(gatherer.take(0, Instant::now()).is_none());
    gatherer.start_over(8);
    assert!(!gatherer.lose(7), "that was the one before");
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(batch.own(), 8);
    assert_eq!(batch.exchange.want[0].slots, 4, "what the lost session occupied is free");
    assert_eq!(batch.exchange.want[0].session, 8);
}

#[test]
fn a_claim_that_is_heard_of_after_the_loss_is_not_held() {
    let mut gatherer = gatherer();
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert!(gatherer.lose(7));
    let (new, _) = gatherer.applied(&batch, vec![claimed(7, 0)], Instant::now());
    assert!(new.is_empty());
    assert_eq!(gatherer.held(), 0);
    gatherer.start_over(8);
    assert_eq!(gatherer.take(0, Instant::now()).unwrap().exchange.want[0].slots, 4);
}

#[test]
fn every_session_asks_for_its_own_slots_and_one_that_asks_for_none_gets_none() {
    let mut gatherer = gatherer();
    gatherer.join(20, Served { classes: [true; 3], ..Served::default() }, Instant::now());
    gatherer.join(21, Served { classes: [true; 3], ..Served::default() }, Instant::now());
    gatherer.want(20, [0, 2, 0]);
    let batch = gatherer.take(0, Instant::now()).unwrap();
    let mut wants: Vec<(i64, i32)> = batch.exchange.want.iter().map(|want| (want.session, want.slots)).collect();
    wants.sort_unstable();
    assert_eq!(wants, [(7, 4), (20, 2)]);
    // The worker asks again while the first answer is out: what is on its way counts.
    gatherer.want(20, [0, 2, 0]);
    let more = gatherer.take(0, Instant::now());
    assert!(more.is_none_or(|batch| batch.exchange.want.iter().all(|want| want.session != 20)));
    let (new, _) = gatherer.applied(&batch, vec![claimed(20, 0), claimed(7, 1)], Instant::now());
    assert_eq!(new.len(), 2);
    assert_eq!(gatherer.held(), 1, "the pool holds its own only");
    assert!(gatherer.get(claimed(20, 0).token).is_some());
}

#[test]
fn nothing_is_claimed_for_a_worker_that_has_stopped_asking() {
    let mut gatherer = gatherer();
    gatherer.join(20, Served { classes: [true; 3], ..Served::default() }, Instant::now());
    gatherer.want(20, [0, 2, 0]);
    let batch = gatherer.take(0, Instant::now()).unwrap();
    gatherer.want(20, [0; 3]);
    gatherer.applied(&batch, Vec::new(), Instant::now());
    gatherer.look_everywhere();
    let next = gatherer.take(0, Instant::now()).unwrap();
    assert!(next.exchange.want.iter().all(|want| want.session != 20), "{:?}", next.exchange.want);
}

#[test]
fn a_remote_session_that_leaves_takes_its_results_along_and_no_one_else_loses_any() {
    let mut gatherer = gatherer();
    gatherer.join(20, Served { classes: [true; 3], ..Served::default() }, Instant::now());
    let first = gatherer.take(0, Instant::now()).unwrap();
    gatherer.applied(&first, vec![claimed(20, 0), claimed(7, 1)], Instant::now());
    for (session, index) in [(20, 0), (7, 1)] {
        gatherer.finish(claimed(session, index).token).unwrap();
        gatherer.push_ended(ended(session, index));
    }
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(batch.exchange.ended.len(), 2);
    assert_eq!(batch.exchange.sessions, [7, 20]);
    // The store refuses the whole batch, because session 20 is dead.
    gatherer.leave(20);
    gatherer.put_back(batch);
    let again = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(again.exchange.ended.iter().map(|row| row.token.session).collect::<Vec<_>>(), [7]);
    assert_eq!(again.exchange.sessions, [7]);
}

#[test]
fn a_claim_that_is_known_already_is_not_dispatched_twice() {
    let mut gatherer = gatherer();
    gatherer.join(20, Served { classes: [true; 3], ..Served::default() }, Instant::now());
    gatherer.want(20, [0, 2, 0]);
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert!(gatherer.session_mut(20).unwrap().hold(&claimed(20, 0), SlotClass::Function), "read from the store first");
    let (new, _) = gatherer.applied(&batch, vec![claimed(20, 0)], Instant::now());
    assert!(new.is_empty());
}

#[test]
fn namespaces_share_the_slots_by_weight_however_many_routes_they_have() {
    let weights = BTreeMap::from([("big".to_owned(), 3)]);
    let mut gatherer = Gatherer::new(7, 1, SessionInbox::own(all(), [0, 40, 0]), weights);
    let rows: Vec<RouteRow> = (1..=4).map(|id| row(id, "small")).chain([row(9, "big")]).collect();
    gatherer.learn_routes(&rows, Instant::now());
    let batch = gatherer.take(0, Instant::now()).unwrap();
    let of = |route: i32| -> i32 {
        batch.exchange.want.iter().filter(|want| want.route == route).map(|want| want.slots).sum()
    };
    assert_eq!(of(9), 30);
    assert_eq!((1..=4).map(of).sum::<i32>(), 10);
}

#[test]
fn a_route_that_no_slot_was_left_for_is_asked_the_next_time() {
    let mut gatherer = Gatherer::new(7, 1, SessionInbox::own(all(), [0, 1, 0]), BTreeMap::new());
    gatherer.learn_routes(&[row(1, "a"), row(2, "b")], Instant::now());
    let first = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(first.exchange.want.len(), 1);
    gatherer.applied(&first, Vec::new(), Instant::now());
    let second = gatherer.take(0, Instant::now()).unwrap();
    assert_ne!(first.exchange.want[0].route, second.exchange.want[0].route);
}

#[test]
fn a_node_that_drains_learns_of_cancels_as_long_as_it_holds_something() {
    let mut gatherer = gatherer();
    let batch = gatherer.take(0, Instant::now()).unwrap();
    gatherer.applied(&batch, vec![claimed(7, 0)], Instant::now());
    gatherer.drain();
    gatherer.look_everywhere();
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(batch.exchange.sessions, [7]);
    assert!(batch.exchange.want.is_empty() && !batch.exchange.look_for_undecided, "it takes nothing");
    assert!(gatherer.take(0, Instant::now()).is_none(), "until the next look");
    gatherer.finish(claimed(7, 0).token);
    gatherer.look_everywhere();
    assert!(gatherer.take(0, Instant::now()).is_none(), "there is nothing to cancel");
}
