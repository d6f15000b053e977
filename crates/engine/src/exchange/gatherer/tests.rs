use mainspring_core::TaskKey;
use mainspring_core::workflow::SlotClass;
use mainspring_store::Claimed;

use super::*;
use crate::exchange::batches::Batch;
use crate::exchange::tickets::Ticket;

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
    assert!(gatherer.mark_lost(7));
    assert!(!gatherer.mark_lost(7), "another caller is opening a new one already");
    assert_eq!(gatherer.held(), 0);
    gatherer.look_everywhere();
    assert!(gatherer.take(0, Instant::now()).is_none());
    gatherer.start_over(8);
    assert!(!gatherer.mark_lost(7), "that was the one before");
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(batch.own(), 8);
    assert_eq!(batch.exchange.want[0].slots, 4, "what the lost session occupied is free");
    assert_eq!(batch.exchange.want[0].session, 8);
}

#[test]
fn results_under_way_to_the_store_keep_the_node_from_being_idle() {
    let mut gatherer = gatherer();
    let batch = gatherer.take(0, Instant::now()).unwrap();
    gatherer.applied(&batch, vec![claimed(7, 0)], Instant::now());
    assert!(!gatherer.is_idle(), "the pool executes");
    gatherer.drain();
    gatherer.finish(claimed(7, 0).token).unwrap();
    gatherer.push_ended(ended(7, 0));
    assert!(!gatherer.is_idle(), "a result waits");
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert!(!gatherer.is_idle(), "a lane has it, and the store has not answered");
    gatherer.put_back(batch);
    gatherer.hand_in_ended();
    assert!(!gatherer.is_idle(), "it was refused and waits again");
    let batch = gatherer.take(0, Instant::now()).unwrap();
    gatherer.applied(&batch, Vec::new(), Instant::now());
    gatherer.hand_in_ended();
    assert!(gatherer.is_idle());
}

#[test]
fn a_claim_that_is_heard_of_after_the_loss_is_not_held() {
    let mut gatherer = gatherer();
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert!(gatherer.mark_lost(7));
    let (new, _) = gatherer.applied(&batch, vec![claimed(7, 0)], Instant::now());
    assert!(new.is_empty());
    assert_eq!(gatherer.held(), 0);
    gatherer.start_over(8);
    assert_eq!(gatherer.take(0, Instant::now()).unwrap().exchange.want[0].slots, 4);
}

#[test]
fn an_exchange_that_is_answered_after_the_node_started_over_keeps_no_slots() {
    let mut gatherer = gatherer();
    let (first, second) = (gatherer.take(0, Instant::now()).unwrap(), gatherer.take(0, Instant::now()));
    assert!(second.is_none(), "every slot is reserved");
    assert!(gatherer.mark_lost(7));
    gatherer.start_over(8);
    gatherer.put_back(first);
    assert_eq!(gatherer.take(0, Instant::now()).unwrap().exchange.want[0].slots, 4);
}

#[test]
fn an_exchange_that_is_answered_after_its_session_left_and_came_back_gives_it_no_slots() {
    let mut gatherer = gatherer();
    let served = Served { classes: [true; 3], ..Served::default() };
    gatherer.join(20, served.clone(), Instant::now());
    gatherer.want(20, [0, 2, 0]);
    let batch = gatherer.take(0, Instant::now()).unwrap();
    gatherer.leave(20);
    gatherer.join(20, served, Instant::now());
    gatherer.put_back(batch);
    gatherer.want(20, [0, 2, 0]);
    let batch = gatherer.take(0, Instant::now()).unwrap();
    let wanted: i32 = batch.exchange.want.iter().filter(|want| want.session == 20).map(|want| want.slots).sum();
    assert_eq!(wanted, 2);
}

#[test]
fn every_session_asks_for_its_own_slots_and_one_that_asks_for_none_gets_none() {
    let mut gatherer = gatherer();
    gatherer.join(20, Served { classes: [true; 3], ..Served::default() }, Instant::now());
    gatherer.join(21, Served { classes: [true; 3], ..Served::default() }, Instant::now());
    gatherer.want(20, [0, 2, 0]);
    let batch = gatherer.take(0, Instant::now()).unwrap();
    let of = |session: i64| -> i32 {
        batch.exchange.want.iter().filter(|want| want.session == session).map(|want| want.slots).sum()
    };
    assert_eq!((of(7), of(20), of(21)), (4, 2, 0));
    // The worker asks again while the first answer is under way; claims on their way to it count.
    gatherer.want(20, [0, 2, 0]);
    let more = gatherer.take(0, Instant::now());
    assert!(more.is_none_or(|batch| batch.exchange.want.iter().all(|want| want.session != 20)));
    let (new, _) = gatherer.applied(&batch, vec![claimed(20, 0), claimed(7, 1)], Instant::now());
    assert_eq!(new.len(), 2);
    assert_eq!(gatherer.held(), 1, "the pool holds its own only");
    assert!(gatherer.get(claimed(20, 0).token).is_some());
}

#[test]
fn a_few_rows_are_dealt_out_to_all_who_want_them() {
    let mut gatherer = Gatherer::new(7, 1, SessionInbox::own(all(), [0, 8, 0]), BTreeMap::new());
    gatherer.learn_routes(&[row(1, "default")], Instant::now());
    gatherer.join(20, Served { classes: [true; 3], ..Served::default() }, Instant::now());
    gatherer.want(20, [0, 8, 0]);
    let batch = gatherer.take(0, Instant::now()).unwrap();
    // Six rows are claimed in the order of the demand, as in the store.
    let (mut rows, mut claims) = (6, Vec::new());
    for want in &batch.exchange.want {
        let got = want.slots.min(rows);
        claims.extend((0..got).map(|nth| claimed(want.session, 6 - rows + nth)));
        rows -= got;
    }
    let mine = claims.iter().filter(|claim| claim.token.session == 7).count();
    assert!((2..=4).contains(&mine), "{mine} of 6");
    let (new, _) = gatherer.applied(&batch, claims, Instant::now());
    assert_eq!(new.len(), 6);
    // Unused slots are free again, exactly once.
    gatherer.look_everywhere();
    let batch = gatherer.take(0, Instant::now()).unwrap();
    let wanted: i32 = batch.exchange.want.iter().filter(|want| want.session == 7).map(|want| want.slots).sum();
    assert_eq!(wanted, 8 - mine as i32);
}

#[test]
fn a_route_that_was_not_understood_is_left_to_others_for_a_while() {
    let mut gatherer = gatherer();
    let now = Instant::now();
    gatherer.avoid(1, now + std::time::Duration::from_secs(5));
    gatherer.avoid_deciding(now + std::time::Duration::from_secs(5));
    gatherer.look_everywhere();
    let batch = gatherer.take(0, now).unwrap();
    assert!(batch.exchange.want.is_empty() && batch.exchange.decide == 0);
    assert!(gatherer.take(0, now).is_none());
    assert!(gatherer.reserve_first(&[(1, 1)].into()).is_empty());
    gatherer.look_everywhere();
    let batch = gatherer.take(0, now + std::time::Duration::from_secs(6)).unwrap();
    assert_eq!((wanted(&batch), batch.exchange.decide > 0), (4, true));
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

/// A gatherer whose queue `default` is dispatched by connected streams, after the first look.
fn dispatching() -> Gatherer {
    let mut gatherer = gatherer();
    gatherer.dispatch(&["default".to_owned()].into());
    gatherer.set_dispatch_heard(true);
    let first = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(first.exchange.want[0].slots, 4, "what has no ticket is looked for once");
    gatherer.applied(&first, Vec::new(), Instant::now());
    gatherer
}

fn ticket(entry: &str) -> Ticket {
    Ticket { route: 1, entry: entry.into() }
}

fn wanted(batch: &Batch) -> i32 {
    batch.exchange.want.iter().map(|want| want.slots).sum()
}

#[test]
fn a_dispatched_route_is_asked_as_often_as_there_are_tickets() {
    let mut gatherer = dispatching();
    assert_eq!(gatherer.dispatched_routes(), [1]);
    assert_eq!(gatherer.ticket_room(), [(1, 4)]);
    gatherer.look_everywhere();
    gatherer.look_at(&ClaimableRoutes::These([1].into()));
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(wanted(&batch), 0, "a message is no ticket");
    gatherer.applied(&batch, Vec::new(), Instant::now());
    for entry in ["1-0", "2-0", "2-0"] {
        gatherer.grant(ticket(entry));
    }
    assert_eq!(gatherer.ticket_room(), [(1, 2)]);
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(wanted(&batch), 2);
    assert!(gatherer.take_used_tickets().is_empty(), "not before the claim is committed");
    gatherer.applied(&batch, vec![claimed(7, 0)], Instant::now());
    assert_eq!(gatherer.take_used_tickets(), [ticket("1-0"), ticket("2-0")], "whether or not a row was left");
    assert!(gatherer.take(0, Instant::now()).is_none());
    gatherer.look_beyond_tickets();
    assert_eq!(wanted(&gatherer.take(0, Instant::now()).unwrap()), 3);
}

#[test]
fn tickets_wait_for_slots_and_come_back_with_a_batch_that_was_not_applied() {
    let mut gatherer = dispatching();
    for entry in 1..=5 {
        gatherer.grant(ticket(&format!("{entry}-0")));
    }
    assert!(gatherer.ticket_room().is_empty());
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!(wanted(&batch), 4);
    gatherer.put_back(batch);
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!((wanted(&batch), &batch.tickets[0]), (4, &ticket("1-0")));
    gatherer.applied(&batch, (0..4).map(|index| claimed(7, index)).collect(), Instant::now());
    assert!(gatherer.take(0, Instant::now()).is_none(), "no slot is free for the fifth");
    gatherer.finish(claimed(7, 0).token).unwrap();
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!((wanted(&batch), batch.tickets.as_slice()), (1, &[ticket("5-0")][..]));
}

#[test]
fn a_dispatched_route_is_like_any_other_while_the_streams_are_not_heard() {
    let mut gatherer = dispatching();
    gatherer.grant(ticket("1-0"));
    gatherer.set_dispatch_heard(false);
    assert!(gatherer.ticket_room().is_empty());
    let batch = gatherer.take(0, Instant::now()).unwrap();
    assert_eq!((wanted(&batch), batch.tickets.len()), (4, 0));
    gatherer.applied(&batch, Vec::new(), Instant::now());
    gatherer.look_at(&ClaimableRoutes::These([1].into()));
    assert_eq!(wanted(&gatherer.take(0, Instant::now()).unwrap()), 4);
}
