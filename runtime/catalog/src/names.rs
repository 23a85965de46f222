//! Search by name prefix.

use std::collections::HashSet;

use perpend_db::Arg;
use perpend_domain::ids::ProjectId;

use crate::{Catalog, Error};

/// Number of the newest objects of each kind that are searched.
const LOOKED_AT: i64 = 1_000;

/// A kind of object with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedKind {
    Evaluator,
    Rule,
    Prompt,
    Dataset,
}

/// Result of a search by name prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameMatches {
    /// Id and name; an exact match first, then the newest.
    pub found: Vec<(String, String)>,
    /// Whether older objects were not searched.
    pub is_cut: bool,
}

perpend_db::record! {
    struct NameRow {
        id: String,
        name: String,
    }
}

impl NamedKind {
    const fn table(self) -> &'static str {
        match self {
            Self::Evaluator => "evaluators",
            Self::Rule => "rules",
            Self::Prompt => "prompts",
            Self::Dataset => "datasets",
        }
    }

    /// The id column that references use.
    const fn id(self) -> &'static str {
        match self {
            Self::Prompt => "name",
            Self::Evaluator | Self::Rule | Self::Dataset => "id",
        }
    }

    /// Whether names have an index.
    const fn is_by_name(self) -> bool {
        matches!(self, Self::Prompt | Self::Dataset)
    }
}

impl Catalog {
    /// Names with a prefix, in any case, among the newest of their kind; at most `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn names_with_prefix(
        &self,
        project: &ProjectId,
        kind: NamedKind,
        start: &str,
        limit: usize,
    ) -> Result<NameMatches, Error> {
        let (table, id) = (kind.table(), kind.id());
        let mut rows: Vec<NameRow> = Vec::new();
        if kind.is_by_name() {
            let sql =
                format!("SELECT {id} AS id, name FROM {table} WHERE project_id = $1 AND name = $2");
            let args: [Arg<'_>; 2] = [project.as_str().into(), start.into()];
            rows = self.pool.select(&sql, &args).await?;
        }
        let sql = format!(
            "SELECT {id} AS id, name FROM {table} WHERE project_id = $1 \
              ORDER BY created_at DESC, {id} LIMIT {}",
            LOOKED_AT + 1
        );
        let newest: Vec<NameRow> = self.pool.select(&sql, &[project.as_str().into()]).await?;
        let n = i64::try_from(newest.len()).unwrap_or(i64::MAX);
        let (exact, others): (Vec<_>, Vec<_>) =
            newest.into_iter().take(LOOKED_AT as usize).partition(|row| row.name == start);
        let folded = start.to_lowercase();
        rows.extend(exact);
        rows.extend(others.into_iter().filter(|row| row.name.to_lowercase().starts_with(&folded)));
        let mut seen = HashSet::new();
        let rows = rows.into_iter().filter(|row| seen.insert(row.id.clone()));
        Ok(NameMatches {
            found: rows.take(limit).map(|row| (row.id, row.name)).collect(),
            is_cut: LOOKED_AT < n,
        })
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::dataset::Dataset;
    use perpend_domain::time::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::testing::on_each_database;

    #[tokio::test]
    async fn names_are_found_by_their_beginning_in_any_case_and_the_exact_one_is_first() {
        on_each_database(|store| async move {
            let home = ProjectId::new("home").unwrap();
            for (n, name) in ["Ärger", "ÄRGER 2", "ärger", "other"].iter().enumerate() {
                let at = Timestamp::from_millis(n as i64);
                let dataset = Dataset {
                    id: format!("d{n}"),
                    name: (*name).to_owned(),
                    description: None,
                    metadata: json!({}),
                    input_schema: None,
                    expected_output_schema: None,
                    created_at: at,
                    updated_at: at,
                };
                assert!(store.catalog.create_dataset(&home, &dataset).await.unwrap());
            }
            let find = async |project: &ProjectId, start: &str, limit| {
                let found =
                    store.catalog.names_with_prefix(project, NamedKind::Dataset, start, limit);
                let found = found.await.unwrap();
                assert!(!found.is_cut);
                found.found.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
            };
            assert_eq!(find(&home, "Ärger", 9).await, ["d0", "d2", "d1"]);
            assert_eq!(find(&home, "ärg", 2).await, ["d2", "d1"]);
            let elsewhere = ProjectId::new("elsewhere").unwrap();
            assert_eq!(find(&elsewhere, "Ärger", 9).await, [""; 0]);
            for kind in [NamedKind::Evaluator, NamedKind::Rule, NamedKind::Prompt] {
                let none = store.catalog.names_with_prefix(&home, kind, "x", 9).await;
                assert_eq!(none.unwrap(), NameMatches::default());
            }
        })
        .await;
    }
}
