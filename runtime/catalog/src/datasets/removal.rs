//! Rename and deletion of datasets.

use perpend_domain::dataset::DatasetName;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use serde_json::json;

use super::AUDITED;
use crate::{Catalog, Error, audit};
use perpend_db::{Arg, Tx, query};

const RENAME: &str = "
    UPDATE datasets SET name = $3, updated_at = $4
     WHERE project_id = $1 AND id = $2
       AND NOT EXISTS (SELECT 1 FROM datasets o WHERE o.project_id = $1 AND o.name = $3 AND o.id <> $2)";
const DELETE: &str = "DELETE FROM datasets WHERE project_id = $1 AND id = $2";
const DELETE_PARTS: [&str; 4] = [
    "DELETE FROM dataset_import_rejects WHERE project_id = $1 AND import_id IN
        (SELECT id FROM dataset_imports WHERE project_id = $1 AND dataset_id = $2)",
    "DELETE FROM dataset_imports WHERE project_id = $1 AND dataset_id = $2",
    "DELETE FROM dataset_items WHERE project_id = $1 AND dataset_id = $2",
    "DELETE FROM dataset_versions WHERE project_id = $1 AND dataset_id = $2",
];

impl Catalog {
    /// Renames a dataset; `false` if another one has the name, or the dataset does not exist.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rename_dataset(
        &self,
        project: &ProjectId,
        id: &str,
        name: &DatasetName,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let args: [Arg<'_>; 4] =
            [project.as_str().into(), id.into(), name.as_str().into(), now.as_micros().into()];
        audit::note(AUDITED, id, None, Some(json!({ "name": name.as_str() })));
        Ok(self.pool.change(RENAME, &args).await? == 1)
    }
}

/// Deletes a dataset with all versions of its items, inside the transaction of the caller. `false` if it does
/// not exist.
///
/// # Errors
/// When the database fails.
pub async fn delete_dataset(tx: &mut Tx, project: &ProjectId, id: &str) -> Result<bool, Error> {
    audit::note(AUDITED, id, None, None);
    // First the dataset: a concurrent write of its items finds no revision to raise.
    if query(DELETE).bind(project.as_str()).bind(id).execute(tx).await? == 0 {
        return Ok(false);
    }
    for part in DELETE_PARTS {
        query(part).bind(project.as_str()).bind(id).execute(tx).await?;
    }
    Ok(true)
}
