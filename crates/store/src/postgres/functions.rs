//! The stored functions: their source is `sql/postgres/functions`, one file per function, named after it.
//!
//! An installed function carries the hash of its text and the version of the program that installed it as its comment, so that
//! what is installed can be compared with what this program has. A program leaves what a newer one installed under the same name
//! as it is: nodes of two versions share a schema, and the name says that both can call it.

use sha2::{Digest, Sha256};
use sqlx::{AssertSqlSafe, PgConnection};

use crate::error::Result;
use crate::names::render;

pub(crate) struct Function {
    pub(crate) name: &'static str,
    source: &'static str,
}

macro_rules! functions {
    ($($name:literal)+) => {
        &[$(Function { name: $name, source: include_str!(concat!("../../sql/postgres/functions/", $name, ".sql")) }),+]
    };
}

/// In the order of their making: those in plain SQL are checked against the ones they call.
pub(crate) const ALL: &[Function] = functions!(
    "uuid_v7_v1" "verdict_v1" "counts_v1" "stopped_v1" "startable_v1" "followed_flags_v1" "runs_ended_v1" "child_ended_v1" "limits_v1" "items_v1"
    "enter_stage_v1" "next_stage_v1" "settle_one_v1" "settle_v1" "exchange_v1" "create_runs_v1" "start_runs_v1"
    "swap_triggers_v1"
);

impl Function {
    /// With the numbers of its states and flags.
    pub(crate) fn text(&self) -> String {
        render(self.source)
    }

    fn hash(&self) -> String {
        Sha256::digest(self.text()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether this comment is of what is installed by this program, or by a newer one.
    fn is_installed(&self, comment: &str) -> bool {
        let (hash, version) = comment.split_once(' ').unwrap_or((comment, ""));
        hash == self.hash() || numbers(version) > numbers(VERSION)
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The numbers of a version; none of what is not one.
fn numbers(version: &str) -> Vec<u64> {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    release.split('.').map_while(|number| number.parse().ok()).collect()
}

/// Those that are missing or were installed from another text.
pub(crate) async fn outdated(connection: &mut PgConnection) -> Result<Vec<&'static Function>> {
    let installed: Vec<(String, Option<String>)> = sqlx::query_as(
        "SELECT proname::text, obj_description(oid, 'pg_proc') FROM pg_proc WHERE pronamespace = current_schema()::regnamespace",
    )
    .fetch_all(connection)
    .await?;
    let is_current = |function: &Function| {
        let is_it = |comment: &String| function.is_installed(comment);
        installed.iter().any(|(name, comment)| name == function.name && comment.as_ref().is_some_and(is_it))
    };
    Ok(ALL.iter().filter(|function| !is_current(function)).collect())
}

/// Replaces what is outdated, within the caller's transaction.
pub(crate) async fn install(connection: &mut PgConnection) -> Result<()> {
    for function in outdated(connection).await? {
        let name = function.name;
        let script = format!(
            "SET LOCAL client_min_messages = warning;\nDROP FUNCTION IF EXISTS {name};\n{}\nCOMMENT ON FUNCTION {name} IS '{} {VERSION}';",
            function.text(),
            function.hash()
        );
        sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut *connection).await?;
    }
    Ok(())
}

pub(crate) async fn drop_all(connection: &mut PgConnection) -> Result<()> {
    for function in ALL.iter().rev() {
        let script = format!("DROP FUNCTION IF EXISTS {};", function.name);
        sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut *connection).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_file_is_installed() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/postgres/functions");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".sql").map(str::to_owned))
            .collect();
        files.sort();
        let mut installed: Vec<&str> = ALL.iter().map(|function| function.name).collect();
        installed.sort_unstable();
        assert_eq!(installed, files);
        for function in ALL {
            assert!(function.source.contains(&format!("CREATE FUNCTION {}(", function.name)), "{}", function.name);
        }
    }
}
