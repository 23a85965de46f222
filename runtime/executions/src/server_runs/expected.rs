//! The items over which a run was started, the rule that scores their results, and the baseline.

use perpend_db::{checked, query_scalar};
use perpend_domain::ids::{ProjectId, RuleId};

use super::drive::WHAT;
use crate::{Error, Ledger};

const ITEMS: &str = "
    SELECT item_id FROM server_run_items WHERE project_id = $1 AND run_id = $2
     GROUP BY item_id ORDER BY MIN(place)";

const RULE: &str =
    "SELECT rule_id FROM server_runs WHERE project_id = $1 AND id = $2 AND rule_id IS NOT NULL";

const BASELINE: &str = "
    SELECT baseline_id FROM server_runs WHERE project_id = $1 AND id = $2 AND baseline_id IS NOT NULL";

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

    /// The rule that scores the results of a run with the evaluators of its experiment.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rule_of_run(
        &self,
        project: &ProjectId,
        run: &str,
    ) -> Result<Option<RuleId>, Error> {
        let id: Option<String> =
            query_scalar(RULE).bind(project.as_str()).bind(run).fetch_optional(&self.pool).await?;
        id.map(|id| checked(WHAT, &id)).transpose()
    }

    /// The run with which comparisons of a run start.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn baseline_of_run(
        &self,
        project: &ProjectId,
        run: &str,
    ) -> Result<Option<String>, Error> {
        query_scalar(BASELINE).bind(project.as_str()).bind(run).fetch_optional(&self.pool).await
    }
}
