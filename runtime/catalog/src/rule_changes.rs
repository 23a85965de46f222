//! The history of the definitions of rules.

use perpend_db::{Tx, from_json, query, query_scalar, to_json};
use perpend_domain::evaluation::Rule;
use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::{Catalog, Error, audit};

/// Changes kept of one rule.
const MAX_CHANGES: i64 = 500;

/// The definition of a rule after a change.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleChange {
    /// Time of the change.
    pub at: Timestamp,
    /// Who made it, if known.
    pub author: Option<String>,
    /// As [`Rule::definition`].
    pub definition: Value,
}

const COUNT: &str = "SELECT COUNT(*) FROM rule_changes WHERE project_id = $1 AND rule_id = $2";
const INSERT: &str = "
    INSERT INTO rule_changes (project_id, rule_id, place, changed_at, definition, author)
    SELECT $1, $2, COALESCE(MAX(place), 0) + 1, $3, $4, $5
      FROM rule_changes WHERE project_id = $1 AND rule_id = $2";
const TRIM: &str = "
    DELETE FROM rule_changes
     WHERE project_id = $1 AND rule_id = $2
       AND place <= (SELECT MAX(place) - $3 FROM rule_changes WHERE project_id = $1 AND rule_id = $2)";
const DELETE: &str = "DELETE FROM rule_changes WHERE project_id = $1 AND rule_id = $2";
const LIST: &str = "
    SELECT changed_at, author, definition FROM rule_changes
     WHERE project_id = $1 AND rule_id = $2 ORDER BY place DESC LIMIT $3";

async fn insert(
    tx: &mut Tx,
    project: &ProjectId,
    rule: &Rule,
    author: Option<String>,
) -> Result<(), Error> {
    query(INSERT)
        .bind(project.as_str())
        .bind(rule.id.as_str())
        .bind(rule.updated_at.as_micros())
        .bind(to_json("rule", &rule.definition())?)
        .bind(author)
        .execute(tx)
        .await?;
    Ok(())
}

/// Records the definition of a changed or new rule, inside a transaction that serialises the writers of rules. A rule
/// that has no recorded changes gets the definition before the change too.
pub(super) async fn record_change(
    tx: &mut Tx,
    project: &ProjectId,
    before: Option<&Rule>,
    rule: &Rule,
) -> Result<(), Error> {
    if let Some(before) = before {
        if before.definition() == rule.definition() {
            return Ok(());
        }
        let n: i64 = query_scalar(COUNT)
            .bind(project.as_str())
            .bind(rule.id.as_str())
            .fetch_one(&mut *tx)
            .await?;
        if n == 0 {
            insert(tx, project, before, None).await?;
        }
    }
    insert(tx, project, rule, audit::actor()).await?;
    query(TRIM).bind(project.as_str()).bind(rule.id.as_str()).bind(MAX_CHANGES).execute(tx).await?;
    Ok(())
}

pub(super) async fn delete_changes(
    tx: &mut Tx,
    project: &ProjectId,
    rule: &RuleId,
) -> Result<(), Error> {
    query(DELETE).bind(project.as_str()).bind(rule.as_str()).execute(tx).await?;
    Ok(())
}

impl Catalog {
    /// The changes of a rule, newest first, at most `limit`. The oldest one is its creation, unless more than 500 are
    /// recorded or the rule is older than the record.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rule_changes(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        limit: u32,
    ) -> Result<Vec<RuleChange>, Error> {
        let rows: Vec<(i64, Option<String>, String)> = query(LIST)
            .bind(project.as_str())
            .bind(rule.as_str())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        let change = |(at, author, definition): (i64, Option<String>, String)| {
            Ok(RuleChange {
                at: Timestamp::from_micros(at),
                author,
                definition: from_json("rule", &definition)?,
            })
        };
        rows.into_iter().map(change).collect()
    }
}
