//! LLM connections to model providers. Secrets are already encrypted here.

use std::collections::BTreeMap;

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Catalog, Error, audit, default_models};
use perpend_db::{Arg, PageQuery, from_json, in_transaction, query, query_scalar, to_json};
use perpend_domain::list::{NumberedPage, Paging};

/// A connection to a model provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Its id.
    pub id: String,
    /// The name under which its models are referenced; unique within the project.
    pub provider: String,
    /// The protocol of the provider.
    pub adapter: String,
    /// Key and values of the extra headers, encrypted.
    pub secret: Vec<u8>,
    /// The last characters of the key, for display.
    pub display_secret: String,
    /// Address, if it differs from the default of the adapter.
    pub base_url: Option<String>,
    /// Additional models to those of the adapter.
    pub custom_models: Vec<String>,
    /// Whether the models of the adapter are included.
    pub with_default_models: bool,
    /// Names of the extra headers.
    pub extra_header_keys: Vec<String>,
    /// Settings of the adapter.
    pub config: Option<Value>,
    /// Maximum of concurrent requests, until the provider itself limits them.
    pub max_in_flight: u32,
    /// Whether an OpenAI endpoint is called with the protocol `responses`.
    pub use_responses_api: bool,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

impl Connection {
    /// Whether requests over both use the same address and secrets.
    #[must_use]
    pub fn is_same_account(&self, other: &Self) -> bool {
        let account = |of: &Self| {
            let Self { id, adapter, secret, base_url, extra_header_keys, config, .. } = of.clone();
            (id, adapter, secret, base_url, extra_header_keys, config)
        };
        account(self) == account(other)
    }
}

/// The encrypted part of a connection.
#[derive(Serialize, Deserialize)]
pub struct ConnectionSecret {
    /// Key of the provider.
    pub key: String,
    /// Values of the extra headers by name.
    pub headers: BTreeMap<String, String>,
}

/// Default of the maximum of concurrent requests.
pub const MAX_IN_FLIGHT: u32 = 8;

const WHAT: &str = "LLM connection";
const COLUMNS: &str = "id, provider, adapter, secret, display_secret, base_url, custom_models, \
    with_default_models, extra_header_keys, config, max_in_flight, use_responses_api, created_at, \
    updated_at";
/// Changes the connection as it was read at `$14`.
const REPLACE: &str = "
    UPDATE llm_connections
       SET adapter = $3, secret = $4, display_secret = $5, base_url = $6, custom_models = $7,
           with_default_models = $8, extra_header_keys = $9, config = $10, updated_at = $11,
           max_in_flight = $12, use_responses_api = $13
     WHERE project_id = $1 AND id = $2 AND updated_at = $14";
/// The upsert of a provider does not change its options.
const UPSERT: &str = "
    INSERT INTO llm_connections (project_id, id, adapter, secret, display_secret, base_url,
                                 custom_models, with_default_models, extra_header_keys, config,
                                 updated_at, provider, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT (project_id, provider) DO UPDATE
       SET adapter = excluded.adapter, secret = excluded.secret,
           display_secret = excluded.display_secret, base_url = excluded.base_url,
           custom_models = excluded.custom_models,
           with_default_models = excluded.with_default_models,
           extra_header_keys = excluded.extra_header_keys, config = excluded.config,
           updated_at = excluded.updated_at";
const ID: &str = "SELECT id FROM llm_connections WHERE project_id = $1 AND provider = $2";
const DELETE: &str =
    "DELETE FROM llm_connections WHERE project_id = $1 AND id = $2 RETURNING provider";

perpend_db::record! {
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
        max_in_flight: i32,
        use_responses_api: i16,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ConnectionRow> for Connection {
    type Error = Error;

    fn try_from(row: ConnectionRow) -> Result<Self, Error> {
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
            max_in_flight: row.max_in_flight.max(1).cast_unsigned(),
            use_responses_api: row.use_responses_api != 0,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

/// The first arguments of [`UPSERT`] and [`REPLACE`].
fn shared_args<'c>(
    project: &'c ProjectId,
    connection: &'c Connection,
) -> Result<Vec<Arg<'c>>, Error> {
    let config = connection.config.as_ref();
    let config = config.map(|config| to_json(WHAT, config)).transpose()?;
    Ok(vec![
        project.as_str().into(),
        connection.id.as_str().into(),
        connection.adapter.as_str().into(),
        connection.secret.as_slice().into(),
        connection.display_secret.as_str().into(),
        connection.base_url.as_deref().into(),
        to_json(WHAT, &connection.custom_models)?.into(),
        connection.with_default_models.into(),
        to_json(WHAT, &connection.extra_header_keys)?.into(),
        config.into(),
        connection.updated_at.as_micros().into(),
    ])
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "llm-connection";

/// Describes a change for the audit trail. Of the secret, only whether it changed is recorded.
fn note_saved(id: &str, before: Option<&Connection>, after: &Connection) {
    let mut state = audit::objects::connection(after);
    if before.is_none_or(|before| before.display_secret != after.display_secret) {
        state["secret"] = json!({ "changed": true });
    }
    audit::note(AUDITED, id, before.map(audit::objects::connection), Some(state));
}

impl Catalog {
    /// Writes the connection of a provider. It replaces an existing one except its id, its options and its
    /// creation time. Evaluators that were paused for a fault of the connection resume. `true` if the
    /// connection is new.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn put_connection(
        &self,
        project: &ProjectId,
        connection: &Connection,
    ) -> Result<bool, Error> {
        let mut args = shared_args(project, connection)?;
        args.extend([
            connection.provider.as_str().into(),
            connection.created_at.as_micros().into(),
        ]);
        let before = self.connection(project, &connection.provider).await?;
        Ok(in_transaction!(&self.pool, |tx| {
            query(UPSERT).bind_all(&args).execute(&mut tx).await?;
            let existing: String = query_scalar(ID)
                .bind(project.as_str())
                .bind(&connection.provider)
                .fetch_one(&mut tx)
                .await?;
            let now = connection.updated_at;
            default_models::connection_saved(&mut tx, project, &connection.provider, now).await?;
            note_saved(&existing, before.as_ref(), connection);
            existing == connection.id
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

    /// The connection with this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn connection_by_id(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<Connection>, Error> {
        let sql =
            format!("SELECT {COLUMNS} FROM llm_connections WHERE project_id = $1 AND id = $2");
        let args = [project.as_str().into(), id.into()];
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
    ) -> Result<NumberedPage<Connection>, Error> {
        let args: [Arg<'_>; 1] = [project.as_str().into()];
        let listed = PageQuery {
            select: COLUMNS,
            from: "FROM llm_connections WHERE project_id = $1",
            args: &args,
            order: "created_at DESC, id DESC",
        };
        self.pool.numbered::<ConnectionRow, _>(&listed, paging).await
    }

    /// Writes all members of a connection except its id, its provider and its creation time. Evaluators that
    /// were paused for a fault of the connection resume. `read_at` is the time of the last change of the
    /// connection that was read.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the connection was changed or deleted since it was read.
    pub async fn replace_connection(
        &self,
        project: &ProjectId,
        connection: &Connection,
        read_at: Timestamp,
    ) -> Result<(), Error> {
        let mut args = shared_args(project, connection)?;
        args.extend([
            i64::from(connection.max_in_flight).into(),
            connection.use_responses_api.into(),
            read_at.as_micros().into(),
        ]);
        let before = self.connection_by_id(project, &connection.id).await?;
        in_transaction!(&self.pool, |tx| {
            let n_changed = query(REPLACE).bind_all(&args).execute(&mut tx).await?;
            if n_changed == 0 {
                return Err(Error::Conflict(
                    "the LLM connection was changed by another request; read it again and repeat the change",
                ));
            }
            let now = connection.updated_at;
            default_models::connection_saved(&mut tx, project, &connection.provider, now).await?;
            note_saved(&connection.id, before.as_ref(), connection);
        });
        Ok(())
    }

    /// Deletes a connection and pauses the evaluators whose current version uses it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such connection.
    pub async fn delete_connection(
        &self,
        project: &ProjectId,
        id: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            let provider: Option<String> = query_scalar(DELETE)
                .bind(project.as_str())
                .bind(id)
                .fetch_optional(&mut tx)
                .await?;
            let provider = provider.ok_or(Error::NotFound)?;
            audit::note(AUDITED, id, Some(json!({ "provider": provider })), None);
            default_models::connection_deleted(&mut tx, project, &provider, now).await?;
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each_database;

    #[tokio::test]
    async fn a_provider_has_one_connection_which_keeps_its_id_and_changes_once_per_read() {
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
                max_in_flight: MAX_IN_FLIGHT,
                use_responses_api: false,
                created_at: at,
                updated_at: at,
            };
            assert!(store.catalog.put_connection(&ours, &connection).await.unwrap());
            connection.id = "2".to_owned();
            connection.adapter = "azure".to_owned();
            connection.created_at = Timestamp::from_millis(9);
            assert!(!store.catalog.put_connection(&ours, &connection).await.unwrap());
            let stored = store.catalog.connection(&ours, "main").await.unwrap().unwrap();
            assert_eq!((stored.id.as_str(), stored.adapter.as_str()), ("1", "azure"));
            assert_eq!((stored.created_at, stored.secret), (at, vec![0, 255, 1]));
            assert_eq!(store.catalog.connection(&theirs, "main").await.unwrap(), None);
            let read = store.catalog.connection(&ours, "main").await.unwrap().unwrap();
            let changed = Connection {
                max_in_flight: 3,
                base_url: Some("https://models.example".to_owned()),
                updated_at: Timestamp::from_millis(2),
                ..read.clone()
            };
            let catalog = &store.catalog;
            catalog.replace_connection(&ours, &changed, read.updated_at).await.unwrap();
            let again = catalog.connection(&ours, "main").await.unwrap().unwrap();
            assert_eq!(again, changed);
            let late = catalog.replace_connection(&ours, &read, read.updated_at).await;
            assert!(matches!(late, Err(Error::Conflict(_))));
            assert!(store.catalog.delete_connection(&theirs, "1", at).await.is_err());
            store.catalog.delete_connection(&ours, "1", at).await.unwrap();
            let left = store.catalog.connections(&ours, Paging::default()).await.unwrap();
            assert_eq!(left, NumberedPage::empty());
        })
        .await;
    }
}
