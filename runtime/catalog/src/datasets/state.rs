//! Archived datasets, and the run of a dataset that the others are compared with.

use perpend_domain::ids::ProjectId;
use perpend_domain::list::{NumberedPage, Paging};
use perpend_domain::time::Timestamp;
use serde_json::json;

use super::row::DatasetRow;
use super::{AUDITED, COLUMNS, StoredDataset};
use crate::{Catalog, Error, audit};
use perpend_db::{Arg, PageQuery};

const ARCHIVE: &str = "UPDATE datasets SET archived_at = $3 WHERE project_id = $1 AND id = $2 AND archived_at IS NULL";
const ACTIVATE: &str = "UPDATE datasets SET archived_at = NULL WHERE project_id = $1 AND id = $2";
const SET_BASELINE: &str =
    "UPDATE datasets SET baseline_run_id = $3 WHERE project_id = $1 AND id = $2";

impl Catalog {
    /// A page of the active or the archived datasets of a project, newest first; all of them if `is_archived` is
    /// absent.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn datasets_by_state(
        &self,
        project: &ProjectId,
        is_archived: Option<bool>,
        paging: Paging,
    ) -> Result<NumberedPage<StoredDataset>, Error> {
        let listed = PageQuery {
            select: COLUMNS,
            from: match is_archived {
                None => "FROM datasets WHERE project_id = $1",
                Some(true) => "FROM datasets WHERE project_id = $1 AND archived_at IS NOT NULL",
                Some(false) => "FROM datasets WHERE project_id = $1 AND archived_at IS NULL",
            },
            args: &[project.as_str().into()],
            order: "created_at DESC, id DESC",
        };
        self.pool.numbered::<DatasetRow, _>(&listed, paging).await
    }

    /// Archives a dataset since a time, or makes it active again. An archived one keeps its time.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn archive_dataset(
        &self,
        project: &ProjectId,
        id: &str,
        at: Option<Timestamp>,
    ) -> Result<(), Error> {
        audit::note(AUDITED, id, None, Some(json!({ "archivedAt": at })));
        let (project, id): (Arg<'_>, Arg<'_>) = (project.as_str().into(), id.into());
        match at {
            Some(at) => self.pool.change(ARCHIVE, &[project, id, at.as_micros().into()]).await?,
            None => self.pool.change(ACTIVATE, &[project, id]).await?,
        };
        Ok(())
    }

    /// Sets the run that the other runs of a dataset are compared with; `None` removes it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn set_dataset_baseline(
        &self,
        project: &ProjectId,
        id: &str,
        run_id: Option<&str>,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 3] = [project.as_str().into(), id.into(), run_id.into()];
        audit::note(AUDITED, id, None, Some(json!({ "baselineRunId": run_id })));
        self.pool.change(SET_BASELINE, &args).await?;
        Ok(())
    }
}
