//! The number by which a cache of rules and evaluators knows that it is old.

use crate::{Catalog, Error};
use perpend_sql::query_scalar;

const REVISION: &str = "SELECT revision FROM catalog_revision WHERE id = 1";
/// Belongs into every transaction that changes a rule or an evaluator.
pub(super) const RAISE: &str = "UPDATE catalog_revision SET revision = revision + 1 WHERE id = 1";

impl Catalog {
    /// A number that grows with every change of a rule or an evaluator in any project. Crosses tenants:
    /// for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn catalog_revision(&self) -> Result<i64, Error> {
        query_scalar(REVISION).fetch_one(&self.pool).await
    }
}
