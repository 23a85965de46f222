//! The default evaluation model of a project, and the effects of changed models on the evaluators that use
//! them.

use std::collections::HashMap;

use perpend_db::{Source, Tx, checked, from_json, in_transaction, query, to_json};
use perpend_domain::evaluation::Pause;
use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_domain::slots::{CONNECTION_REASONS, ModelChoice, Slot};
use perpend_domain::time::Timestamp;
use serde_json::json;

use crate::evaluators::{PAUSE, UNPAUSE};
use crate::{Catalog, Error, audit, revision, row};

const WHAT: &str = "default model";
const GET: &str = "SELECT provider, model, params FROM default_models WHERE project_id = $1";
const PUT: &str = "
    INSERT INTO default_models (project_id, provider, model, params, updated_at)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (project_id) DO UPDATE
       SET provider = excluded.provider, model = excluded.model, params = excluded.params,
           updated_at = excluded.updated_at";
const DELETE: &str = "DELETE FROM default_models WHERE project_id = $1";
const PROTOCOLS: &str = "SELECT provider, adapter FROM llm_connections WHERE project_id = $1";
/// Evaluators with each version in use that calls a model: the newest, and those that rules are pinned to or
/// use while the newest is a shadow version.
const MODEL_USERS: &str = "
    SELECT e.id, e.name, e.paused_reason, e.paused_message, e.paused_at, e.paused_until, v.slots
      FROM evaluators e
      JOIN evaluator_versions v ON v.project_id = e.project_id AND v.evaluator_id = e.id
     WHERE e.project_id = $1 AND v.slots <> '[]'
       AND (v.number = e.version
            OR EXISTS (SELECT 1 FROM assignments a
                        WHERE a.project_id = e.project_id AND a.evaluator_id = e.id
                          AND (a.pinned_version = v.number
                               OR (a.shadow_version = e.version AND v.number = e.version - 1))))
     ORDER BY e.name, e.id, v.number DESC";

perpend_db::record! {
    struct ModelUserRow {
        id: String,
        name: String,
        paused_reason: Option<String>,
        paused_message: Option<String>,
        paused_at: Option<i64>,
        paused_until: Option<i64>,
        slots: String,
    }
}

/// A version in use of an evaluator that calls a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelUser {
    /// The evaluator.
    pub id: EvaluatorId,
    /// Its name.
    pub name: String,
    /// Its pause.
    pub paused: Option<Pause>,
    /// The slots of the version.
    pub slots: Vec<Slot>,
}

impl ModelUser {
    /// The models of its slots at this provider. A slot without a model uses the default model of the project.
    pub fn models_of<'u>(
        &'u self,
        provider: &'u str,
        default: Option<&'u ModelChoice>,
    ) -> impl Iterator<Item = &'u ModelChoice> {
        let choices = self.slots.iter().filter_map(move |slot| slot.model.as_ref().or(default));
        choices.filter(move |choice| choice.provider == provider)
    }

    fn uses_provider(&self, provider: &str, default: Option<&ModelChoice>) -> bool {
        self.models_of(provider, default).next().is_some()
    }

    fn uses_default(&self) -> bool {
        self.slots.iter().any(|slot| slot.model.is_none())
    }

    /// Whether saving its connection or the default model resumes it.
    #[must_use]
    pub fn waits_for_connection(&self) -> bool {
        let paused = self.paused.as_ref();
        paused.is_some_and(|pause| CONNECTION_REASONS.contains(&pause.reason.as_str()))
    }
}

impl TryFrom<ModelUserRow> for ModelUser {
    type Error = Error;

    fn try_from(row: ModelUserRow) -> Result<Self, Error> {
        Ok(Self {
            id: checked("evaluator", &row.id)?,
            name: row.name,
            paused: row::pause(
                row.paused_reason,
                row.paused_message,
                row.paused_at,
                row.paused_until,
            ),
            slots: from_json("evaluator version", &row.slots)?,
        })
    }
}

async fn default_model(tx: &mut Tx, project: &ProjectId) -> Result<Option<ModelChoice>, Error> {
    let row: Option<(String, String, String)> =
        query(GET).bind(project.as_str()).fetch_optional(tx).await?;
    row.map(choice).transpose()
}

fn choice((provider, model, params): (String, String, String)) -> Result<ModelChoice, Error> {
    Ok(ModelChoice { provider, model, params: from_json(WHAT, &params)? })
}

async fn model_users(source: Source<'_>, project: &ProjectId) -> Result<Vec<ModelUser>, Error> {
    let rows: Vec<ModelUserRow> =
        query(MODEL_USERS).bind(project.as_str()).fetch_all(source).await?;
    rows.into_iter().map(TryInto::try_into).collect()
}

async fn pause(
    tx: &mut Tx,
    project: &ProjectId,
    evaluator: &ModelUser,
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Result<(), Error> {
    query(PAUSE)
        .bind(project.as_str())
        .bind(evaluator.id.as_str())
        .bind(reason)
        .bind(message)
        .bind(now.as_micros())
        .bind(None::<i64>)
        .execute(tx)
        .await?;
    Ok(())
}

async fn unpause(
    tx: &mut Tx,
    project: &ProjectId,
    evaluator: &ModelUser,
    now: Timestamp,
) -> Result<(), Error> {
    query(UNPAUSE)
        .bind(project.as_str())
        .bind(evaluator.id.as_str())
        .bind(now.as_micros())
        .execute(tx)
        .await?;
    Ok(())
}

/// Resumes evaluators that were paused for a reason that saving the connection of this provider may have
/// removed. Must be called in the transaction that saves it. Returns the resumed evaluators.
pub(crate) async fn connection_saved(
    tx: &mut Tx,
    project: &ProjectId,
    provider: &str,
    now: Timestamp,
) -> Result<Vec<EvaluatorId>, Error> {
    query(revision::RAISE).execute(&mut *tx).await?;
    let default = default_model(tx, project).await?;
    let mut resumed: Vec<EvaluatorId> = Vec::new();
    for evaluator in model_users((&mut *tx).into(), project).await? {
        if evaluator.waits_for_connection()
            && evaluator.uses_provider(provider, default.as_ref())
            && !resumed.contains(&evaluator.id)
        {
            unpause(tx, project, &evaluator, now).await?;
            resumed.push(evaluator.id);
        }
    }
    Ok(resumed)
}

/// Pauses evaluators with a version in use that uses this provider. Must be called in the transaction that
/// deletes its connection.
pub(crate) async fn connection_deleted(
    tx: &mut Tx,
    project: &ProjectId,
    provider: &str,
    now: Timestamp,
) -> Result<(), Error> {
    query(revision::RAISE).execute(&mut *tx).await?;
    let default = default_model(tx, project).await?;
    let message = format!("the LLM connection {provider:?} was deleted");
    for evaluator in model_users((&mut *tx).into(), project).await? {
        if evaluator.uses_provider(provider, default.as_ref()) {
            let why = ("LLM_CONNECTION_MISSING", message.as_str());
            pause(tx, project, &evaluator, why, now).await?;
        }
    }
    Ok(())
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "default-model";

impl Catalog {
    /// The model of slots without a model of their own.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn default_model(&self, project: &ProjectId) -> Result<Option<ModelChoice>, Error> {
        let rows: Vec<(String, String, String)> =
            self.pool.select(GET, &[project.as_str().into()]).await?;
        rows.into_iter().next().map(choice).transpose()
    }

    /// Sets the default model. Evaluators that use it and were paused because there was none, or for a fault
    /// of its connection, resume.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn put_default_model(
        &self,
        project: &ProjectId,
        choice: &ModelChoice,
        now: Timestamp,
    ) -> Result<(), Error> {
        let params = to_json(WHAT, &choice.params)?;
        let state = |choice: &ModelChoice| json!({ "provider": choice.provider, "model": choice.model, "params": choice.params });
        let before = self.default_model(project).await?;
        audit::note(AUDITED, project.as_str(), before.as_ref().map(state), Some(state(choice)));
        in_transaction!(&self.pool, |tx| {
            query(revision::RAISE).execute(&mut tx).await?;
            query(PUT)
                .bind(project.as_str())
                .bind(&choice.provider)
                .bind(&choice.model)
                .bind(&params)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            for evaluator in model_users((&mut tx).into(), project).await? {
                if evaluator.waits_for_connection() && evaluator.uses_default() {
                    unpause(&mut tx, project, &evaluator, now).await?;
                }
            }
        });
        Ok(())
    }

    /// Removes the default model and pauses the evaluators that use it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has none.
    pub async fn delete_default_model(
        &self,
        project: &ProjectId,
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            query(revision::RAISE).execute(&mut tx).await?;
            audit::note(AUDITED, project.as_str(), None, None);
            let n_gone = query(DELETE).bind(project.as_str()).execute(&mut tx).await?;
            if n_gone == 0 {
                return Err(Error::NotFound);
            }
            for evaluator in model_users((&mut tx).into(), project).await? {
                if evaluator.uses_default() {
                    let why = (
                        "DEFAULT_EVAL_MODEL_MISSING",
                        "the project's default evaluation model was deleted",
                    );
                    pause(&mut tx, project, &evaluator, why, now).await?;
                }
            }
        });
        Ok(())
    }

    /// The versions in use that call models, by name of the evaluator.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn model_users(&self, project: &ProjectId) -> Result<Vec<ModelUser>, Error> {
        model_users((&self.pool).into(), project).await
    }

    /// Resumes the evaluators that use the connection of this provider and were paused for a reason that
    /// saving a connection removes. Returns them.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn resume_model_users(
        &self,
        project: &ProjectId,
        provider: &str,
        now: Timestamp,
    ) -> Result<Vec<EvaluatorId>, Error> {
        Ok(in_transaction!(&self.pool, |tx| {
            connection_saved(&mut tx, project, provider, now).await?
        }))
    }

    /// The protocol of each provider of a project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn protocols(&self, project: &ProjectId) -> Result<HashMap<String, String>, Error> {
        let args = [project.as_str().into()];
        let rows: Vec<(String, String)> = self.pool.select(PROTOCOLS, &args).await?;
        Ok(rows.into_iter().collect())
    }
}
