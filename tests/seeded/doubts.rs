//! Answers that are lost while an exchange in doubt is being settled must change nothing about how it is settled.

use mainspring_store::{Error, Exchange, Reply, Resolution};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::proxy::{Fault, Proxy};

use crate::driver::Driver;

/// What a resolution asks, in this order: the guard, who moved it, and what was claimed.
const QUESTIONS: [&str; 3] = ["UPDATE lanes", "SELECT voided", "claim = $2"];

/// An exchange that hands in and claims goes wrong, and so do these questions about it.
async fn settle(driver: &mut Driver, proxy: &Proxy, lost: Fault, questions: &[(&str, Fault)]) {
    let before = proxy.injected().len();
    driver.submit("a: {function: noop}, b: {needs: a, function: noop}").await;
    driver.submit("a: {function: noop}").await;
    let claimed = driver.claim(1).await;
    let ended = vec![driver.execute(&claimed[0])];
    let exchange = Exchange { ended, want: driver.wants(1).await, ..driver.exchange() };
    proxy.plan("exchange_v1", lost);
    for (words, fault) in questions {
        proxy.plan(words, *fault);
    }
    let error = driver.lane.exchange(&exchange).await.unwrap_err();
    assert!(matches!(error, Error::InDoubt(_)), "{error}");
    let reply = resolve(driver, &exchange, lost == Fault::LoseReply).await;
    for claim in &reply.claimed {
        driver.hand_in(claim).await;
    }
    driver.drain().await;
    let violations = driver.violations().await;
    assert!(violations.is_empty(), "{lost:?} {questions:?}: {violations:#?}");
    assert_eq!(proxy.injected().len(), before + 1 + questions.len(), "{lost:?} {questions:?}");
}

/// Asks until there is an answer, and repeats what was not applied.
async fn resolve(driver: &mut Driver, exchange: &Exchange, was_applied: bool) -> Reply {
    loop {
        match driver.lane.resolve(&[driver.session]).await {
            Ok(Resolution::Applied(reply)) if was_applied => return reply,
            Ok(Resolution::NotApplied) if !was_applied => return driver.send(exchange).await,
            Ok(other) => panic!("it is said to be {other:?}"),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

#[tokio::test]
async fn a_doubt_is_settled_whatever_answers_are_lost() {
    let database = TestDatabase::postgres().await;
    let proxy = Proxy::start(database.url()).await.unwrap();
    let mut driver = Driver::by_way_of(database, proxy.url()).await;
    for lost in [Fault::LoseReply, Fault::LoseRequest] {
        // What was never applied has claimed nothing: that is not asked.
        let asked = if lost == Fault::LoseReply { &QUESTIONS[..] } else { &QUESTIONS[..2] };
        settle(&mut driver, &proxy, lost, &[]).await;
        for fault in [Fault::LoseReply, Fault::LoseRequest] {
            for question in asked {
                settle(&mut driver, &proxy, lost, &[(question, fault)]).await;
                settle(&mut driver, &proxy, lost, &[(question, fault), (question, fault)]).await;
            }
            let all: Vec<_> = asked.iter().map(|question| (*question, fault)).collect();
            settle(&mut driver, &proxy, lost, &all).await;
        }
    }
}
