//! LLM connections: how model providers are reached. Secrets arrive here encrypted.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::{Catalog, Error};
use perpend_domain::list::{Numbered, Paging};
use perpend_sql::{Arg, Listed, from_json, in_transaction, query, query_scalar, to_json};

/// How a provider is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Its id.
    pub id: String,
    /// The name models are asked for under; unique within the project.
    pub provider: String,
    /// Which protocol the provider speaks.
    pub adapter: String,
    /// Key and values of the extra headers, encrypted.
    pub secret: Vec<u8>,
    /// The end of the key, for people.
    pub display_secret: String,
    /// Where it is, when it is not where the adapter looks.
    pub base_url: Option<String>,
    /// Models it has beside those of the adapter.
    pub custom_models: Vec<String>,
    /// Whether the models of the adapter are offered.
    pub with_default_models: bool,
    /// Names of the extra headers.
    pub extra_header_keys: Vec<String>,
    /// What the adapter needs to know.
    pub config: Option<Value>,
    /// Made at.
    pub created_at: Timestamp,
    /// Last changed at.
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "id, provider, adapter, secret, display_secret, base_url, custom_models, \
    with_default_models, extra_header_keys, config, created_at, updated_at";
const UPSERT: &str = "
    INSERT INTO llm_connections (project_id, id, provider, adapter, secret, display_secret, base_url,
                                 custom_models, with_default_models, extra_header_keys, config,
                                 created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT (project_id, provider) DO UPDATE
       SET adapter = excluded.adapter, secret = excluded.secret,
           display_secret = excluded.display_secret, base_url = excluded.base_url,
           custom_models = excluded.custom_models,
           with_default_models = excluded.with_default_models,
           extra_header_keys = excluded.extra_header_keys, config = excluded.config,
           updated_at = excluded.updated_at";
const STANDING: &str = "SELECT id FROM llm_connections WHERE project_id = $1 AND provider = $2";
const DELETE: &str = "DELETE FROM llm_connections WHERE project_id = $1 AND id = $2";

perpend_sql::record! {
    struct ConnectionRow {
        id: String,
        provider: String,
        adapter: String,
        secret: Vec<u8>,
        display_secret: String,
        base_url: Option<String>,
        custom_models: String,
        with_default_models: i16,
        extra_header_keys: String,
        config: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ConnectionRow> for Connection {
    type Error = Error;

    fn try_from(row: ConnectionRow) -> Result<Self, Error> {
        const WHAT: &str = "LLM connection";
        let config = row.config.as_deref();
        let config = config.map(|raw| from_json(WHAT, raw)).transpose()?;
        Ok(Self {
            id: row.id,
            provider: row.provider,
            adapter: row.adapter,
            secret: row.secret,
            display_secret: row.display_secret,
            base_url: row.base_url,
            custom_models: from_json(WHAT, &row.custom_models)?,
            with_default_models: row.with_default_models != 0,
            extra_header_keys: from_json(WHAT, &row.extra_header_keys)?,
            config,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

impl Catalog {
    /// Writes the connection of a provider, which replaces the one there is, all but its id and the time
    /// it was made at. True when there was none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn put_connection(
        &self,
        project: &ProjectId,
        connection: &Connection,
    ) -> Result<bool, Error> {
        const WHAT: &str = "LLM connection";
        let models = to_json(WHAT, &connection.custom_models)?;
        let headers = to_json(WHAT, &connection.extra_header_keys)?;
        let config = connection.config.as_ref();
        let config = config.map(|config| to_json(WHAT, config)).transpose()?;
        let args: [Arg<'_>; 13] = [
            project.as_str().into(),
            connection.id.as_str().into(),
            connection.provider.as_str().into(),
            connection.adapter.as_str().into(),
            connection.secret.as_slice().into(),
            connection.display_secret.as_str().into(),
            connection.base_url.as_deref().into(),
            models.as_str().into(),
            connection.with_default_models.into(),
            headers.as_str().into(),
            config.as_deref().into(),
            connection.created_at.as_micros().into(),
            connection.updated_at.as_micros().into(),
        ];
        Ok(in_transaction!(&self.pool, |tx| {
            query(UPSERT).bind_all(&args).execute(&mut tx).await?;
            let standing: String = query_scalar(STANDING)
                .bind(project.as_str())
                .bind(&connection.provider)
                .fetch_one(&mut tx)
                .await?;
            standing == connection.id
        }))
    }

    /// The connection of a provider.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn connection(
        &self,
        project: &ProjectId,
        provider: &str,
    ) -> Result<Option<Connection>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} FROM llm_connections WHERE project_id = $1 AND provider = $2"
        );
        let args = [project.as_str().into(), provider.into()];
        let mut rows: Vec<ConnectionRow> = self.pool.select(&sql, &args).await?;
        rows.pop().map(TryInto::try_into).transpose()
    }

    /// Connections, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn connections(
        &self,
        project: &ProjectId,
        paging: Paging,
    ) -> Result<Numbered<Connection>, Error> {
        let args: [Arg<'_>; 1] = [project.as_str().into()];
        let listed = Listed {
            select: COLUMNS,
            from: "FROM llm_connections WHERE project_id = $1",
            args: &args,
            order: "created_at DESC, id DESC",
        };
        self.pool
            .numbered::<ConnectionRow, _>(&listed, paging)
            .await
    }

    /// Deletes a connection.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such connection.
    pub async fn delete_connection(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        let args = [project.as_str().into(), id.into()];
        match self.pool.change(DELETE, &args).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each_database;

    #[tokio::test]
    async fn a_provider_has_one_connection_which_keeps_its_id() {
        on_each_database(|store| async move {
            let (ours, theirs) = (ProjectId::new("a").unwrap(), ProjectId::new("b").unwrap());
            let at = Timestamp::from_millis(1);
            let mut connection = Connection {
                id: "1".to_owned(),
                provider: "main".to_owned(),
                adapter: "openai".to_owned(),
                secret: vec![0, 255, 1],
                display_secret: "...abcd".to_owned(),
                base_url: None,
                custom_models: vec!["m".to_owned()],
                with_default_models: true,
                extra_header_keys: Vec::new(),
                config: None,
                created_at: at,
                updated_at: at,
            };
            assert!(
                store
                    .catalog
                    .put_connection(&ours, &connection)
                    .await
                    .unwrap()
            );
            connection.id = "2".to_owned();
            connection.adapter = "azure".to_owned();
            connection.created_at = Timestamp::from_millis(9);
            assert!(
                !store
                    .catalog
                    .put_connection(&ours, &connection)
                    .await
                    .unwrap()
            );
            let stored = store
                .catalog
                .connection(&ours, "main")
                .await
                .unwrap()
                .unwrap();
            assert_eq!(
                (stored.id.as_str(), stored.adapter.as_str()),
                ("1", "azure")
            );
            assert_eq!((stored.created_at, stored.secret), (at, vec![0, 255, 1]));
            assert_eq!(
                store.catalog.connection(&theirs, "main").await.unwrap(),
                None
            );
            assert!(store.catalog.delete_connection(&theirs, "1").await.is_err());
            store.catalog.delete_connection(&ours, "1").await.unwrap();
            let left = store
                .catalog
                .connections(&ours, Paging::default())
                .await
                .unwrap();
            assert_eq!(left, Numbered::empty());
        })
        .await;
    }
}
