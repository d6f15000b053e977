//! Puts a bug into the test's database: on PostgreSQL a function of the migrations is replaced by a changed one, on SQLite
//! a trigger undoes what the bug leaves out.

use mainspring_store::Flavor;
use mainspring_testkit::TestDatabase;

use crate::driver::execute;

/// A function of the migrations, and one passage of it to say otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutation {
    pub(crate) function: &'static str,
    pub(crate) passage: &'static str,
    pub(crate) instead: &'static str,
    /// What plays the same bug on SQLite, if anything can.
    pub(crate) trigger: Option<&'static str>,
}

pub(crate) async fn apply(database: &TestDatabase, mutation: Mutation) {
    let sql = match database.store().flavor() {
        Flavor::Postgres => mutated(database, mutation).await,
        Flavor::Sqlite => mutation.trigger.expect("a bug that can be played on SQLite").to_owned(),
    };
    execute(database, &sql).await;
    if mutation.function == "settle_v1" && database.store().flavor() == Flavor::Postgres {
        // Lone results would take the short way, which is sound.
        let always_long = Mutation {
            function: "exchange_v1",
            passage: "single boolean := cardinality(f_run) = 1",
            instead: "single boolean := cardinality(f_run) = -1",
            trigger: None,
        };
        let sql = mutated(database, always_long).await;
        execute(database, &sql).await;
    }
}

async fn mutated(database: &TestDatabase, mutation: Mutation) -> String {
    let head = format!("CREATE FUNCTION {}(", mutation.function);
    let steps = database.store().migration_status().await.unwrap();
    let texts: Vec<String> = steps.iter().map(|step| step.up_sql(Flavor::Postgres)).collect();
    // The newest definition is the one in force.
    let text = texts.iter().rev().find_map(|text| text.rfind(&head).map(|at| &text[at..]));
    let text = text.unwrap_or_else(|| panic!("no migration makes {}", mutation.function));
    let end = text.find("\nEND $$;").unwrap_or_else(|| panic!("{} has no end", mutation.function));
    let text = &text[..end + "\nEND $$;".len()];
    let found = text.matches(mutation.passage).count();
    assert_eq!(found, 1, "{} does not say once: {}", mutation.function, mutation.passage);
    text.replacen("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1).replace(mutation.passage, mutation.instead)
}
