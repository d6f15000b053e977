//! A database that takes nothing for a while has refused nothing: what it was given is given to it again.

use mainspring_store::{Error, Exchange, Flavor, Resolution};
use sqlx::Connection;

use crate::world::{World, execute};

const TWO: &str = "{name: w, tasks: {a: {run: x}, b: {needs: a, run: x}, c: {run: x, if: 'true'}}}";

/// The same holds for a password that was changed, or a pooler whose database is down.
#[tokio::test]
async fn a_database_that_takes_no_connections_has_refused_nothing() {
    let mut w = World::new(Flavor::Postgres).await;
    w.submit(TWO).await;
    let mut lane = w.store.open_lane(w.node, w.now).await.unwrap();
    let claim = Exchange { want: w.wants(5).await, ..w.empty_exchange() };
    let options: sqlx::postgres::PgConnectOptions = w.db.url().parse().unwrap();
    let name = options.get_database().unwrap().to_owned();
    let mut operator = sqlx::PgConnection::connect_with(&options.database("postgres")).await.unwrap();
    let mut allow = async |allowed: bool| {
        let sql = sqlx::AssertSqlSafe(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {allowed}"));
        sqlx::raw_sql(sql).execute(&mut operator).await.unwrap();
    };
    allow(false).await;
    let error = lane.exchange(&claim).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
    allow(true).await;
    let reply = lane.exchange(&claim).await.unwrap();
    assert_eq!(reply.claimed.len(), 1);
    w.note(&claim, &reply);
    w.play(&[], &[]).await;
    w.check().await;
}

/// A primary becomes a standby while nodes are connected to it.
#[tokio::test]
async fn a_database_that_only_reads_for_a_while_has_refused_nothing() {
    let mut w = World::new(Flavor::Postgres).await;
    w.submit(TWO).await;
    let claim = Exchange { want: w.wants(5).await, ..w.empty_exchange() };
    let set = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$";
    execute(&w.db, set).await;
    // Its connection is made now.
    let mut lane = w.store.open_lane(w.node, w.now).await.unwrap();
    let error = lane.exchange(&claim).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    let mut operator = sqlx::PgConnection::connect(w.db.url()).await.unwrap();
    sqlx::raw_sql("SET default_transaction_read_only = off").execute(&mut operator).await.unwrap();
    let reset = set.replace("SET default_transaction_read_only = on", "RESET default_transaction_read_only");
    sqlx::raw_sql(sqlx::AssertSqlSafe(reset)).execute(&mut operator).await.unwrap();
    assert!(matches!(lane.resolve(&[w.session]).await.unwrap(), Resolution::NotApplied));
    let reply = lane.exchange(&claim).await.unwrap();
    w.note(&claim, &reply);
    w.play(&[], &[]).await;
    w.check().await;
}
