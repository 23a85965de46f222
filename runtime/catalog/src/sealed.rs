//! Values that are encrypted with a key outside of the database: where all of them are, for the start and the
//! operator.

use perpend_db::checked;
use perpend_domain::ids::ProjectId;

use crate::{Catalog, Error};

/// Where an encrypted value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealedAt {
    /// The LLM connection of this provider.
    Connection(String),
    /// The export to a bucket.
    Export,
}

impl SealedAt {
    /// Whose it is, as it is sealed with: a value that was moved to another place does not open there.
    #[must_use]
    pub fn owner(&self, project: &ProjectId) -> String {
        match self {
            Self::Connection(provider) => format!("llm-connection/{project}/{provider}"),
            Self::Export => format!("blob-export/{project}"),
        }
    }
}

/// An encrypted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Whose it is.
    pub project: ProjectId,
    /// Where it is.
    pub at: SealedAt,
    /// Encrypted.
    pub secret: Vec<u8>,
}

const CONNECTIONS: &str =
    "SELECT project_id, provider, secret FROM llm_connections ORDER BY project_id, provider";
const EXPORTS: &str = "SELECT project_id, secret FROM blob_exports ORDER BY project_id";

impl Catalog {
    /// All encrypted values. Crosses tenants: for the start and the operator, who ask whether a key opens them.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sealed_values(&self) -> Result<Vec<Sealed>, Error> {
        let connections: Vec<(String, String, Vec<u8>)> =
            self.pool.select(CONNECTIONS, &[]).await?;
        let exports: Vec<(String, Vec<u8>)> = self.pool.select(EXPORTS, &[]).await?;
        let connections = connections
            .into_iter()
            .map(|(project, provider, secret)| (project, SealedAt::Connection(provider), secret));
        let exports =
            exports.into_iter().map(|(project, secret)| (project, SealedAt::Export, secret));
        let sealed = connections.chain(exports).map(|(project, at, secret)| {
            let project = checked("sealed value", &project)?;
            Ok(Sealed { project, at, secret })
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
        assert_eq!(tables, ["blob_exports", "llm_connections"]);
        assert_eq!(store.catalog.sealed_values().await.unwrap(), []);
        store.close().await;
    }
}
