//! Models with prices that a project defines.

use perpend_domain::ids::ProjectId;
use perpend_domain::model::ModelDefinition;
use perpend_domain::time::Timestamp;

use crate::{Catalog, Error, audit};
use perpend_db::Arg;
use perpend_db::{from_json, to_json};

const ALL: &str = "
    SELECT id, name, pattern, start_date, unit, tokenizer_id, tokenizer_config, pricing, created_at,
           updated_at
      FROM models WHERE project_id = $1 ORDER BY created_at DESC, id DESC";
const INSERT: &str = "
    INSERT INTO models (project_id, id, name, pattern, start_date, unit, tokenizer_id,
                        tokenizer_config, pricing, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    ON CONFLICT DO NOTHING";
/// Updates nothing if another model of the project has the name and the start date.
const REPLACE: &str = "
    INSERT INTO models (project_id, id, name, pattern, start_date, unit, tokenizer_id,
                        tokenizer_config, pricing, created_at, updated_at)
    SELECT $1, $2, $3, $4, CAST($5 AS BIGINT), $6, $7, $8, $9, $10, $11
     WHERE NOT EXISTS (SELECT 1 FROM models WHERE project_id = $1 AND name = $3 AND id <> $2
                          AND COALESCE(start_date, -9223372036854775807)
                            = COALESCE(CAST($5 AS BIGINT), -9223372036854775807))
    ON CONFLICT (project_id, id) DO UPDATE
       SET name = excluded.name, pattern = excluded.pattern, start_date = excluded.start_date,
           unit = excluded.unit, tokenizer_id = excluded.tokenizer_id,
           tokenizer_config = excluded.tokenizer_config, pricing = excluded.pricing,
           updated_at = excluded.updated_at";
const DELETE: &str = "DELETE FROM models WHERE project_id = $1 AND id = $2";

perpend_db::record! {
    struct ModelRow {
        id: String,
        name: String,
        pattern: String,
        start_date: Option<i64>,
        unit: Option<String>,
        tokenizer_id: Option<String>,
        tokenizer_config: Option<String>,
        pricing: String,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ModelRow> for ModelDefinition {
    type Error = Error;

    fn try_from(row: ModelRow) -> Result<Self, Error> {
        let config = row.tokenizer_config.as_deref();
        let config = config.map(|raw| from_json("model", raw)).transpose()?;
        Ok(Self {
            id: row.id,
            name: row.name,
            pattern: row.pattern,
            start_date: row.start_date.map(Timestamp::from_micros),
            unit: row.unit,
            tokenizer_id: row.tokenizer_id,
            tokenizer_config: config,
            tiers: from_json("model", &row.pricing)?,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

impl Catalog {
    async fn put_model(
        &self,
        sql: &str,
        project: &ProjectId,
        model: &ModelDefinition,
    ) -> Result<(), Error> {
        let pricing = to_json("model", &model.tiers)?;
        let config = model.tokenizer_config.as_ref();
        let config = config.map(|config| to_json("model", config)).transpose()?;
        let args: [Arg<'_>; 11] = [
            project.as_str().into(),
            model.id.as_str().into(),
            model.name.as_str().into(),
            model.pattern.as_str().into(),
            model.start_date.map(Timestamp::as_micros).into(),
            model.unit.as_deref().into(),
            model.tokenizer_id.as_deref().into(),
            config.as_deref().into(),
            pricing.as_str().into(),
            model.created_at.as_micros().into(),
            model.updated_at.as_micros().into(),
        ];
        let models = self.models(project).await?;
        let before = models.iter().find(|one| one.id == model.id).map(audit::objects::model);
        audit::note("model", &model.id, before, Some(audit::objects::model(model)));
        match self.pool.change(sql, &args).await? {
            0 => Err(Error::Conflict("a model of this name and start date exists")),
            _ => Ok(()),
        }
    }

    /// Stores a new model.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the project has a model of this name and start date.
    pub async fn create_model(
        &self,
        project: &ProjectId,
        model: &ModelDefinition,
    ) -> Result<(), Error> {
        self.put_model(INSERT, project, model).await
    }

    /// Stores a model, replacing the one with its id.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another model of the project has this name and start date.
    pub async fn replace_model(
        &self,
        project: &ProjectId,
        model: &ModelDefinition,
    ) -> Result<(), Error> {
        self.put_model(REPLACE, project, model).await
    }

    /// The models of a project, newest first. Their number is small.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn models(&self, project: &ProjectId) -> Result<Vec<ModelDefinition>, Error> {
        let rows: Vec<ModelRow> = self.pool.select(ALL, &[project.as_str().into()]).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Deletes a model. Costs that were computed with it stay.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such model.
    pub async fn delete_model(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        let args = [project.as_str().into(), id.into()];
        let models = self.models(project).await?;
        let before = models.iter().find(|one| one.id == id).map(audit::objects::model);
        audit::note("model", id, before, None);
        match self.pool.change(DELETE, &args).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::on_each_database;

    fn model(id: &str, name: &str) -> ModelDefinition {
        ModelDefinition {
            id: id.to_owned(),
            name: name.to_owned(),
            pattern: format!("^{name}$"),
            start_date: None,
            unit: None,
            tokenizer_id: None,
            tokenizer_config: Some(json!({ "a": [1] })),
            tiers: Vec::new(),
            created_at: Timestamp::from_millis(1),
            updated_at: Timestamp::from_millis(1),
        }
    }

    #[tokio::test]
    async fn a_name_has_one_model_for_each_start_date_and_a_model_is_replaced_by_its_id() {
        on_each_database(|store| async move {
            let (ours, theirs) = (ProjectId::new("a").unwrap(), ProjectId::new("b").unwrap());
            store.catalog.create_model(&ours, &model("1", "one")).await.unwrap();
            let taken = store.catalog.create_model(&ours, &model("2", "one")).await;
            assert!(matches!(taken, Err(Error::Conflict(_))));
            store.catalog.replace_model(&ours, &model("2", "two")).await.unwrap();
            let taken = store.catalog.replace_model(&ours, &model("2", "one")).await;
            assert!(matches!(taken, Err(Error::Conflict(_))));
            let mut dated = model("3", "one");
            dated.start_date = Some(Timestamp::from_millis(7));
            store.catalog.create_model(&ours, &dated).await.unwrap();
            let taken = ModelDefinition { id: "4".to_owned(), ..dated };
            let taken = store.catalog.create_model(&ours, &taken).await;
            assert!(matches!(taken, Err(Error::Conflict(_))));
            store.catalog.delete_model(&ours, "3").await.unwrap();
            let mut changed = model("2", "zwei");
            changed.updated_at = Timestamp::from_millis(5);
            store.catalog.replace_model(&ours, &changed).await.unwrap();
            let found = store.catalog.models(&ours).await.unwrap();
            assert_eq!(found, [changed, model("1", "one")]);
            assert_eq!(store.catalog.models(&theirs).await.unwrap(), []);
            let foreign = store.catalog.delete_model(&theirs, "1").await;
            assert!(matches!(foreign, Err(Error::NotFound)));
            store.catalog.delete_model(&ours, "1").await.unwrap();
        })
        .await;
    }
}
