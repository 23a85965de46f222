//! Values that are encrypted with a key outside the database: their locations, for the start of the server
//! and for the operator.

use perpend_db::checked;
use perpend_domain::ids::ProjectId;

use crate::{Catalog, Error};

/// Location of an encrypted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealedAt {
    /// The LLM connection of this provider.
    Connection(String),
    /// The export to a bucket.
    Export,
    /// The endpoint of the experiment with this id.
    Endpoint(String),
}

impl SealedAt {
    /// The associated data of the encryption: a value that was moved to another row cannot be decrypted
    /// there.
    #[must_use]
    pub fn owner(&self, project: &ProjectId) -> String {
        match self {
            Self::Connection(provider) => format!("llm-connection/{project}/{provider}"),
            Self::Export => format!("blob-export/{project}"),
            Self::Endpoint(experiment) => format!("endpoint/{project}/{experiment}"),
        }
    }
}

/// An encrypted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedValue {
    /// Project of the value.
    pub project: ProjectId,
    /// Location of the value.
    pub at: SealedAt,
    /// The encrypted value.
    pub secret: Vec<u8>,
}

const CONNECTIONS: &str =
    "SELECT project_id, provider, secret FROM llm_connections ORDER BY project_id, provider";
const ENDPOINTS: &str =
    "SELECT project_id, id, secret FROM endpoint_secrets ORDER BY project_id, id";
const EXPORTS: &str = "SELECT project_id, secret FROM blob_exports ORDER BY project_id";

impl Catalog {
    /// All encrypted values. Crosses tenants: for the start and the operator, who check whether a key
    /// decrypts them.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sealed_values(&self) -> Result<Vec<SealedValue>, Error> {
        let connections: Vec<(String, String, Vec<u8>)> =
            self.pool.select(CONNECTIONS, &[]).await?;
        let exports: Vec<(String, Vec<u8>)> = self.pool.select(EXPORTS, &[]).await?;
        let connections = connections
            .into_iter()
            .map(|(project, provider, secret)| (project, SealedAt::Connection(provider), secret));
        let endpoints: Vec<(String, String, Vec<u8>)> = self.pool.select(ENDPOINTS, &[]).await?;
        let endpoints = endpoints
            .into_iter()
            .map(|(project, id, secret)| (project, SealedAt::Endpoint(id), secret));
        let exports =
            exports.into_iter().map(|(project, secret)| (project, SealedAt::Export, secret));
        let sealed = connections.chain(exports).chain(endpoints).map(|(project, at, secret)| {
            let project = checked("sealed value", &project)?;
            Ok(SealedValue { project, at, secret })
        });
        sealed.collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{OpenStore as _, TempDatabase};

    #[tokio::test]
    async fn every_column_with_encrypted_values_is_read() {
        let database = TempDatabase::sqlite();
        let store = database.open().await;
        const COLUMNS: &str = "
            SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table' AND c.name = 'secret' ORDER BY m.name";
        let tables: Vec<(String,)> = store.pool.select(COLUMNS, &[]).await.unwrap();
        let tables: Vec<_> = tables.into_iter().map(|(name,)| name).collect();
        assert_eq!(tables, ["blob_exports", "endpoint_secrets", "llm_connections"]);
        assert_eq!(store.catalog.sealed_values().await.unwrap(), []);
        store.close().await;
    }
}
