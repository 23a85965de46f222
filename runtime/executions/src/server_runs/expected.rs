//! The items over which a run was started.

use perpend_db::query_scalar;
use perpend_domain::ids::ProjectId;

use crate::{Error, Ledger};

const ITEMS: &str = "
    SELECT item_id FROM server_run_items WHERE project_id = $1 AND run_id = $2
     GROUP BY item_id ORDER BY MIN(place)";

impl Ledger {
    /// The items of a run that the server executes, in the order of the calls; empty for other runs.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn server_run_items(
        &self,
        project: &ProjectId,
        run: &str,
    ) -> Result<Vec<String>, Error> {
        query_scalar(ITEMS).bind(project.as_str()).bind(run).fetch_all(&self.pool).await
    }
}
