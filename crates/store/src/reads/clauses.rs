//! Conditions that several lists share, and how many ids are given to a statement.

/// Only what belongs to these namespaces; `None` is all of them, none at all finds nothing.
macro_rules! in_namespaces {
    ($query:expr, $namespaces:expr) => {
        if let Some(namespaces) = $namespaces {
            $query.push(" AND w.namespace IN (SELECT NULL");
            for namespace in namespaces {
                $query.push(" UNION ALL SELECT ").push_bind(namespace);
            }
            $query.push(")");
        }
    };
}

/// Only of versions with this tag.
macro_rules! tagged {
    ($query:expr, $flavor:expr, $tag:expr) => {
        if let Some(tag) = $tag {
            match $flavor {
                $crate::db::Flavor::Postgres => $query.push(
                    " AND EXISTS (SELECT 1 FROM json_array_elements_text(CAST(v.spec AS json) -> 'tags') t(value) WHERE t.value = ",
                ),
                $crate::db::Flavor::Sqlite => {
                    $query.push(" AND EXISTS (SELECT 1 FROM json_each(v.spec, '$.tags') t WHERE t.value = ")
                }
            };
            $query.push_bind(tag).push(")");
        }
    };
}

pub(crate) use {in_namespaces, tagged};

/// Ids for SQLite: an array that `json_each` takes apart and `unhex` reads.
pub(crate) fn hex_ids(ids: &[uuid::Uuid]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| id.simple().to_string()).collect();
    serde_json::to_string(&ids).unwrap_or_default()
}
