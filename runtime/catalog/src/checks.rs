//! The last check of each version of an evaluator.

use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_domain::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Catalog, Error};
use perpend_db::{from_json, in_transaction, query, to_json};

const WHAT: &str = "check of an evaluator";
/// Inserts nothing if the version was deleted in the meantime.
const PUT: &str = "
    INSERT INTO evaluator_checks (project_id, evaluator_id, number, checked_at, result)
    SELECT project_id, evaluator_id, number, $4, $5 FROM evaluator_versions
     WHERE project_id = $1 AND evaluator_id = $2 AND number = $3
    ON CONFLICT (project_id, evaluator_id, number) DO UPDATE
       SET checked_at = excluded.checked_at, result = excluded.result";
const LIST: &str = "
    SELECT result FROM evaluator_checks
     WHERE project_id = $1 AND evaluator_id = $2 ORDER BY number DESC LIMIT 100";

impl Catalog {
    /// Stores the result of a check of a version and replaces the previous one; `false` if the version was
    /// deleted.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn put_evaluator_check(
        &self,
        project: &ProjectId,
        (evaluator, version): (&EvaluatorId, u32),
        result: &impl Serialize,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let result = to_json(WHAT, result)?;
        let n_kept = in_transaction!(&self.pool, |tx| {
            query(PUT)
                .bind(project.as_str())
                .bind(evaluator.as_str())
                .bind(i64::from(version))
                .bind(now.as_micros())
                .bind(&result)
                .execute(&mut tx)
                .await?
        });
        Ok(0 < n_kept)
    }

    /// The last check of each version, the newest version first, at most 100.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn evaluator_checks<T: DeserializeOwned>(
        &self,
        project: &ProjectId,
        evaluator: &EvaluatorId,
    ) -> Result<Vec<T>, Error> {
        let args = [project.as_str().into(), evaluator.as_str().into()];
        let rows: Vec<(String,)> = self.pool.select(LIST, &args).await?;
        let checks = rows.iter().map(|(result,)| from_json(WHAT, result));
        checks.collect()
    }
}
