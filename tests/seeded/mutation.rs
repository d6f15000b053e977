//! Replaces a function of the test's database by a changed one.

use mainspring_store::Flavor;
use mainspring_testkit::TestDatabase;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// A function of the migrations, and one passage of it to say otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutation {
    pub(crate) function: &'static str,
    pub(crate) passage: &'static str,
    pub(crate) instead: &'static str,
}

pub(crate) async fn apply(database: &TestDatabase, mutation: Mutation) {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let sql = mutated(database, mutation).await;
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

async fn mutated(database: &TestDatabase, mutation: Mutation) -> String {
    let head = format!("CREATE FUNCTION {}(", mutation.function);
    let steps = database.store().migration_status().await.unwrap();
    let texts: Vec<&str> = steps.iter().map(|step| step.up_sql(Flavor::Postgres)).collect();
    // The newest definition is the one in force.
    let text = texts.iter().rev().find_map(|text| text.rfind(&head).map(|at| &text[at..]));
    let text = text.unwrap_or_else(|| panic!("no migration makes {}", mutation.function));
    let end = text.find("\nEND $$;").unwrap_or_else(|| panic!("{} has no end", mutation.function));
    let text = &text[..end + "\nEND $$;".len()];
    let found = text.matches(mutation.passage).count();
    assert_eq!(found, 1, "{} does not say once: {}", mutation.function, mutation.passage);
    text.replacen("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1).replace(mutation.passage, mutation.instead)
}
