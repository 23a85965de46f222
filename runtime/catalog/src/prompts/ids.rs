//! Ids of prompt versions by name and number.

use std::collections::HashMap;

use perpend_domain::ids::ProjectId;

use crate::{Catalog, Error};
use perpend_db::Arg;

/// Versions per statement.
const PER_STATEMENT: usize = 100;

impl Catalog {
    /// The ids of the existing ones of these versions.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn prompt_ids(
        &self,
        project: &ProjectId,
        versions: &[(String, i64)],
    ) -> Result<HashMap<(String, i64), String>, Error> {
        let mut found = HashMap::new();
        for chunk in versions.chunks(PER_STATEMENT) {
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            let mut any = Vec::with_capacity(chunk.len());
            for (name, version) in chunk {
                args.push(name.as_str().into());
                args.push((*version).into());
                any.push(format!("(name = ${} AND version = ${})", args.len() - 1, args.len()));
            }
            let sql = format!(
                "SELECT name, version, id FROM prompt_versions WHERE project_id = $1 AND ({})",
                any.join(" OR ")
            );
            let rows: Vec<(String, i64, String)> = self.pool.select(&sql, &args).await?;
            let ids = rows.into_iter().map(|(name, version, id)| ((name, version), id));
            found.extend(ids);
        }
        Ok(found)
    }
}
