//! The proxy must do to a connection what it says: tests that rely on it would otherwise pass for nothing.

use std::time::{Duration, Instant};

use mainspring_testkit::TestDatabase;
use mainspring_testkit::proxy::{Fault, Proxy};
use sqlx::{Connection, PgConnection};

async fn scene() -> (TestDatabase, Proxy, PgConnection) {
    let database = TestDatabase::empty_postgres().await;
    let proxy = Proxy::start(database.url()).await.unwrap();
    let mut connection = PgConnection::connect(proxy.url()).await.unwrap();
    sqlx::query("CREATE TABLE t (n integer)").execute(&mut connection).await.unwrap();
    insert(&mut connection).await.unwrap();
    (database, proxy, connection)
}

async fn insert(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO t VALUES ($1)").bind(1).execute(connection).await.map(|_| ())
}

async fn count(database: &TestDatabase) -> i64 {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let (count,): (i64,) = sqlx::query_as("SELECT count(*) FROM t").fetch_one(&mut connection).await.unwrap();
    count
}

#[tokio::test]
async fn a_lost_reply_is_lost_after_the_commit() {
    let (database, proxy, mut connection) = scene().await;
    proxy.plan("INSERT", Fault::LoseReply);
    insert(&mut connection).await.unwrap_err();
    assert_eq!(count(&database).await, 2);
    insert(&mut connection).await.unwrap_err();
    assert_eq!(count(&database).await, 2, "the connection is gone");
    assert_eq!(proxy.injected(), [Fault::LoseReply]);
}

#[tokio::test]
async fn a_lost_request_is_never_done() {
    let (database, proxy, mut connection) = scene().await;
    proxy.plan("INSERT", Fault::LoseRequest);
    insert(&mut connection).await.unwrap_err();
    assert_eq!(count(&database).await, 1);
}

#[tokio::test]
async fn a_stalled_request_arrives() {
    let (database, proxy, mut connection) = scene().await;
    proxy.plan("INSERT", Fault::Stall(Duration::from_millis(100)));
    let started = Instant::now();
    insert(&mut connection).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(100));
    assert_eq!(count(&database).await, 2);
}

#[tokio::test]
async fn round_trips_are_counted_by_statement() {
    let (_database, proxy, mut connection) = scene().await;
    proxy.record();
    for _ in 0..3 {
        insert(&mut connection).await.unwrap();
    }
    sqlx::query("SELECT n FROM t WHERE n = $1").bind(1).fetch_all(&mut connection).await.unwrap();
    let trips = proxy.take_trips();
    let shown: Vec<(&str, bool)> = trips.iter().map(|trip| (&trip.text[..6], trip.only_prepares)).collect();
    let insert = ("INSERT", false);
    assert_eq!(shown, [insert, insert, insert, ("SELECT", true), ("SELECT", false)]);
    assert!(trips.iter().all(|trip| trip.connection == trips[0].connection));
    assert_eq!(proxy.take_trips().len(), 0);
}

#[tokio::test]
async fn the_server_can_be_out_of_reach() {
    let (database, proxy, mut connection) = scene().await;
    proxy.go_away();
    insert(&mut connection).await.unwrap_err();
    PgConnection::connect(proxy.url()).await.unwrap_err();
    proxy.come_back();
    insert(&mut PgConnection::connect(proxy.url()).await.unwrap()).await.unwrap();
    assert_eq!(count(&database).await, 2);
}

#[tokio::test]
async fn everybody_can_be_cut_off() {
    let (_database, proxy, mut connection) = scene().await;
    proxy.cut_all();
    insert(&mut connection).await.unwrap_err();
    let mut again = PgConnection::connect(proxy.url()).await.unwrap();
    insert(&mut again).await.unwrap();
}
