//! Migrations: up, down and up again give the schema of the snapshot; schemas of another age are refused.
//!
//! The snapshots are `schema/postgres.sql` and `schema/sqlite.sql`. `MAINSPRING_UPDATE_SCHEMA=1` writes them anew.

use mainspring_store::{Error, Flavor, SchemaState};
use mainspring_testkit::TestDatabase;
use mainspring_testkit::database::NOW;
use sqlx::Connection;

use crate::world::execute;

/// Tables with their columns, constraints, indexes and options; functions by signature, settings and body.
const POSTGRES: &[&str] = &[
    "SELECT format('%s %s', CASE c.relkind WHEN 'p' THEN 'partitioned table' ELSE 'table' END, c.relname)
        || coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', '')
        || coalesce(' ' || pg_get_partkeydef(c.oid), '') || coalesce(' ' || pg_get_expr(c.relpartbound, c.oid), '')
        || E'\\n' || (SELECT string_agg(format('    %s %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
               CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
               CASE a.attidentity WHEN 'a' THEN ' generated always as identity' ELSE '' END,
               coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')), E'\\n' ORDER BY a.attnum)
           FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
           WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
        || coalesce((SELECT string_agg(E'\\n    ' || pg_get_constraintdef(k.oid), '' ORDER BY k.conname)
           FROM pg_constraint k WHERE k.conrelid = c.oid), '')
        || coalesce((SELECT string_agg(E'\\n    ' || pg_get_indexdef(i.indexrelid), '' ORDER BY i.indexrelid::regclass::text)
           FROM pg_index i WHERE i.indrelid = c.oid AND NOT i.indisprimary), '')
     FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname <> 'schema_migrations' ORDER BY c.relname",
    "SELECT format('function %s(%s)%s returns %s%s body %s', p.proname, E'\\n    ' || replace(pg_get_function_arguments(p.oid), ', ', E',\\n    '),
            E'\\n   ', pg_get_function_result(p.oid), coalesce(' set ' || array_to_string(p.proconfig, ', '), ''), md5(p.prosrc))
     FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace ORDER BY p.proname",
];

const SQLITE: &[&str] = &[
    "SELECT sql || ';' FROM sqlite_master WHERE sql IS NOT NULL AND name NOT IN ('schema_migrations', 'sqlite_sequence') ORDER BY tbl_name, type DESC, name",
];

async fn dump(db: &TestDatabase) -> String {
    let mut parts: Vec<String> = Vec::new();
    if db.store().flavor() == Flavor::Postgres {
        let mut connection = sqlx::PgConnection::connect(db.url()).await.unwrap();
        for sql in POSTGRES {
            let rows: Vec<(String,)> = sqlx::query_as(*sql).fetch_all(&mut connection).await.unwrap();
            parts.extend(rows.into_iter().map(|row| row.0));
        }
    } else {
        let mut connection = sqlx::SqliteConnection::connect(db.url()).await.unwrap();
        for sql in SQLITE {
            let rows: Vec<(String,)> = sqlx::query_as(*sql).fetch_all(&mut connection).await.unwrap();
            parts.extend(rows.into_iter().map(|row| row.0));
        }
    }
    parts.iter().map(|part| format!("{part}\n\n")).collect::<String>().trim_end().to_owned() + "\n"
}

async fn up_down_up(flavor: Flavor, file: &str) {
    let db = TestDatabase::empty(flavor).await;
    let steps = db.store().migration_status().await.unwrap().len();
    assert_eq!(db.store().migrate_up(NOW).await.unwrap(), steps);
    assert_eq!(db.store().migrate_up(NOW).await.unwrap(), 0, "up again is nothing");
    let fresh = dump(&db).await;
    // Step by step down, and from every step up again.
    for back in 1..=steps {
        assert_eq!(db.store().migrate_down(back).await.unwrap(), back);
        if back == steps {
            assert_eq!(dump(&db).await.trim(), "", "nothing is left");
        }
        assert_eq!(db.store().migrate_up(NOW).await.unwrap(), back);
        assert_eq!(dump(&db).await, fresh, "after {back} down and up again");
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schema").join(file);
    if std::env::var_os("MAINSPRING_UPDATE_SCHEMA").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &fresh).unwrap();
    }
    let snapshot = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        snapshot == fresh,
        "the schema differs from {}: run the tests with MAINSPRING_UPDATE_SCHEMA=1 and look at the difference",
        path.display()
    );
}

async fn other_ages(flavor: Flavor) {
    let db = TestDatabase::empty(flavor).await;
    let store = db.store();
    let newest = store.migration_status().await.unwrap().iter().map(|step| step.version).max().unwrap();
    assert_eq!(store.schema_state().await.unwrap(), SchemaState::Empty);
    let error = store.require_current_schema().await.unwrap_err();
    assert!(error.to_string().contains("mainspring migrate up"), "{error}");

    store.migrate_up(NOW).await.unwrap();
    assert_eq!(store.schema_state().await.unwrap(), SchemaState::Current);
    store.require_current_schema().await.unwrap();
    assert!(store.migration_status().await.unwrap().iter().all(|step| step.applied_at == Some(NOW)));

    store.migrate_down(1).await.unwrap();
    assert_eq!(store.schema_state().await.unwrap(), SchemaState::Empty);
    assert!(matches!(store.require_current_schema().await, Err(Error::OlderSchema { .. })));
    store.migrate_up(NOW).await.unwrap();

    execute(&db, "INSERT INTO schema_migrations (version, name, applied_at) VALUES (99, 'future', 0)").await;
    for error in [store.require_current_schema().await.unwrap_err(), store.migrate_up(NOW).await.unwrap_err()] {
        assert!(matches!(error, Error::NewerSchema { found: 99, .. }), "{error}");
        assert!(error.to_string().contains("schema version 99"), "{error}");
    }
    assert_eq!(store.schema_state().await.unwrap(), SchemaState::Newer { found: 99, known: newest });
}

#[tokio::test]
async fn migrations_go_up_down_and_up_to_the_snapshot_on_postgres() {
    up_down_up(Flavor::Postgres, "postgres.sql").await;
}

#[tokio::test]
async fn migrations_go_up_down_and_up_to_the_snapshot_on_sqlite() {
    up_down_up(Flavor::Sqlite, "sqlite.sql").await;
}

#[tokio::test]
async fn schemas_of_another_age_are_refused_on_postgres() {
    other_ages(Flavor::Postgres).await;
}

#[tokio::test]
async fn schemas_of_another_age_are_refused_on_sqlite() {
    other_ages(Flavor::Sqlite).await;
}

#[tokio::test]
async fn functions_of_another_text_are_noticed_and_replaced() {
    let db = TestDatabase::empty_postgres().await;
    let store = db.store();
    store.migrate_up(NOW).await.unwrap();
    let fresh = dump(&db).await;
    execute(&db, "DROP FUNCTION stopped_v1").await;
    execute(
        &db,
        "CREATE FUNCTION stopped_v1(flags smallint, stage smallint) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
    )
    .await;
    assert!(matches!(store.schema_state().await.unwrap(), SchemaState::Behind { .. }));
    let error = store.require_current_schema().await.unwrap_err();
    assert!(error.to_string().contains("stored functions"), "{error}");
    assert_eq!(store.migrate_up(NOW).await.unwrap(), 0, "no step is missing");
    store.require_current_schema().await.unwrap();
    assert_eq!(dump(&db).await, fresh);
}

#[tokio::test]
async fn functions_of_a_newer_program_are_left_as_they_are() {
    let db = TestDatabase::empty_postgres().await;
    let store = db.store();
    store.migrate_up(NOW).await.unwrap();
    for (version, stays) in [("999.0.0", true), ("0.0.1", false)] {
        execute(&db, &format!("COMMENT ON FUNCTION stopped_v1 IS 'another-text {version}'")).await;
        assert_eq!(store.require_current_schema().await.is_ok(), stays, "{version}");
        store.migrate_up(NOW).await.unwrap();
        let comments = db.texts("SELECT obj_description('stopped_v1'::regproc, 'pg_proc')").await;
        assert_eq!(comments[0].starts_with("another-text"), stays, "{version}: {comments:?}");
    }
}

#[tokio::test]
async fn two_programs_may_migrate_at_the_same_time() {
    let db = TestDatabase::empty_postgres().await;
    let other = mainspring_store::Store::connect(&mainspring_store::Connect::new(db.url())).await.unwrap();
    let (one, two) = tokio::join!(db.store().migrate_up(NOW), other.migrate_up(NOW));
    assert_eq!(one.unwrap() + two.unwrap(), db.store().migration_status().await.unwrap().len());
    db.store().require_current_schema().await.unwrap();
}
