//! Secrets with which requests to endpoints of applications are signed. They are already encrypted here.

use perpend_db::{Tx, query, query_scalar};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use crate::{Catalog, Error};

const INSERT: &str = "
    INSERT INTO endpoint_secrets (project_id, id, secret, created_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (project_id, id) DO UPDATE SET secret = excluded.secret";
const READ: &str = "SELECT secret FROM endpoint_secrets WHERE project_id = $1 AND id = $2";

const DELETE: &str = "DELETE FROM endpoint_secrets WHERE project_id = $1 AND id = $2";

/// Deletes the secret of an experiment, if it has one, inside the transaction of the caller.
///
/// # Errors
/// When the database fails.
pub async fn delete_endpoint_secret(
    tx: &mut Tx,
    project: &ProjectId,
    id: &str,
) -> Result<(), Error> {
    query(DELETE).bind(project.as_str()).bind(id).execute(tx).await?;
    Ok(())
}

/// Stores the secret of an experiment, inside the transaction of the caller.
///
/// # Errors
/// When the database fails.
pub async fn put_endpoint_secret(
    tx: &mut Tx,
    project: &ProjectId,
    (id, secret): (&str, &[u8]),
    now: Timestamp,
) -> Result<(), Error> {
    query(INSERT)
        .bind(project.as_str())
        .bind(id)
        .bind(secret)
        .bind(now.as_micros())
        .execute(tx)
        .await?;
    Ok(())
}

impl Catalog {
    /// The secret of an experiment.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn endpoint_secret(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<Vec<u8>>, Error> {
        query_scalar(READ).bind(project.as_str()).bind(id).fetch_optional(&self.pool).await
    }
}
