//! Score configs: constraints on the scores of a name.

use perpend_domain::ids::ProjectId;
use perpend_domain::score::ScoreDataType;
use perpend_domain::score_config::{ScoreConfig, ScoreDirection, boolean_categories};
use perpend_domain::time::Timestamp;

use crate::{Catalog, Error, audit};
use perpend_db::{Arg, PageQuery, checked, from_json, to_json, value_list};
use perpend_domain::list::{NumberedPage, Paging};

const COLUMNS: &str = "id, name, data_type, is_archived, min_value, max_value, categories, \
    direction, description, created_at, updated_at";
const INSERT: &str = "
    INSERT INTO score_configs (project_id, id, name, data_type, is_archived, min_value, max_value,
                               categories, direction, description, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
/// The time of the last change detects a concurrent change between reading and writing.
const UPDATE: &str = "
    UPDATE score_configs
       SET name = $3, is_archived = $4, min_value = $5, max_value = $6, categories = $7,
           direction = $8, description = $9, updated_at = $10
     WHERE project_id = $1 AND id = $2 AND updated_at = $11";

perpend_db::record! {
    struct ConfigRow {
        id: String,
        name: String,
        data_type: String,
        is_archived: i16,
        min_value: Option<f64>,
        max_value: Option<f64>,
        categories: Option<String>,
        direction: Option<String>,
        description: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ConfigRow> for ScoreConfig {
    type Error = Error;

    fn try_from(row: ConfigRow) -> Result<Self, Error> {
        let direction = row.direction.as_deref();
        let direction = direction.map(|raw| checked("score config", raw)).transpose()?;
        let categories = row.categories.as_deref();
        let categories = categories.map(|raw| from_json("score config", raw));
        Ok(Self {
            id: row.id,
            name: row.name,
            data_type: checked("score config", &row.data_type)?,
            is_archived: row.is_archived != 0,
            min_value: row.min_value,
            max_value: row.max_value,
            categories: categories.transpose()?,
            direction,
            description: row.description,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "score-config";

fn categories(config: &ScoreConfig) -> Result<Option<String>, Error> {
    let list = config.categories.as_ref();
    list.map(|list| to_json("score config", list)).transpose()
}

impl Catalog {
    /// Stores a new score config.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_score_config(
        &self,
        project: &ProjectId,
        config: &ScoreConfig,
    ) -> Result<(), Error> {
        let categories = categories(config)?;
        let args: [Arg<'_>; 12] = [
            project.as_str().into(),
            config.id.as_str().into(),
            config.name.as_str().into(),
            config.data_type.as_str().into(),
            config.is_archived.into(),
            config.min_value.into(),
            config.max_value.into(),
            categories.as_deref().into(),
            config.direction.map(ScoreDirection::as_str).into(),
            config.description.as_deref().into(),
            config.created_at.as_micros().into(),
            config.updated_at.as_micros().into(),
        ];
        audit::note(AUDITED, &config.id, None, Some(audit::objects::score_config(config)));
        self.pool.change(INSERT, &args).await.map(|_| ())
    }

    /// Replaces a config if its last change was at `seen`.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it was deleted or changed since.
    pub async fn update_score_config(
        &self,
        project: &ProjectId,
        config: &ScoreConfig,
        seen: Timestamp,
    ) -> Result<(), Error> {
        let categories = categories(config)?;
        let args: [Arg<'_>; 11] = [
            project.as_str().into(),
            config.id.as_str().into(),
            config.name.as_str().into(),
            config.is_archived.into(),
            config.min_value.into(),
            config.max_value.into(),
            categories.as_deref().into(),
            config.direction.map(ScoreDirection::as_str).into(),
            config.description.as_deref().into(),
            config.updated_at.as_micros().into(),
            seen.as_micros().into(),
        ];
        let before = self.score_config(project, &config.id).await?;
        let before = before.as_ref().map(audit::objects::score_config);
        audit::note(AUDITED, &config.id, before, Some(audit::objects::score_config(config)));
        match self.pool.change(UPDATE, &args).await? {
            0 => Err(Error::Conflict("the score config was changed meanwhile")),
            _ => Ok(()),
        }
    }

    /// The score configs of the project among these ids.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_configs_by_id(
        &self,
        project: &ProjectId,
        ids: &[String],
    ) -> Result<Vec<ScoreConfig>, Error> {
        let mut found = Vec::new();
        for chunk in ids.chunks(200) {
            let sql = format!(
                "SELECT {COLUMNS} FROM score_configs WHERE project_id = $1 AND id IN ({})",
                value_list(chunk.len(), 2)
            );
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            args.extend(chunk.iter().map(|id| Arg::from(id.as_str())));
            let rows: Vec<ConfigRow> = self.pool.select(&sql, &args).await?;
            for row in rows {
                found.push(row.try_into()?);
            }
        }
        Ok(found)
    }

    /// The score configs with one of these names that are not archived, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_configs_by_name(
        &self,
        project: &ProjectId,
        names: &[&str],
    ) -> Result<Vec<ScoreConfig>, Error> {
        let mut found: Vec<ScoreConfig> = Vec::new();
        for chunk in names.chunks(200) {
            let sql = format!(
                "SELECT {COLUMNS} FROM score_configs
                  WHERE project_id = $1 AND is_archived = 0 AND name IN ({})",
                value_list(chunk.len(), 2)
            );
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            args.extend(chunk.iter().map(|name| Arg::from(*name)));
            let rows: Vec<ConfigRow> = self.pool.select(&sql, &args).await?;
            for row in rows {
                found.push(row.try_into()?);
            }
        }
        found.sort_by(|left, right| {
            let newest = right.created_at.cmp(&left.created_at);
            newest.then_with(|| right.id.cmp(&left.id))
        });
        Ok(found)
    }

    /// Sets the direction in the newest score config with the name of `new`, or else stores `new`.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the config was changed meanwhile.
    pub async fn set_score_direction(
        &self,
        project: &ProjectId,
        new: ScoreConfig,
    ) -> Result<ScoreConfig, Error> {
        let found = self.score_configs_by_name(project, &[new.name.as_str()]).await?;
        let has_direction = |config: &ScoreConfig| config.data_type != ScoreDataType::Text;
        let Some(mut config) = found.into_iter().find(has_direction) else {
            let mut new = new;
            if new.data_type == ScoreDataType::Boolean {
                new.categories = Some(boolean_categories());
            }
            self.create_score_config(project, &new).await?;
            return Ok(new);
        };
        let seen = config.updated_at;
        config.direction = new.direction;
        config.updated_at = new.updated_at.max(seen.plus_millis(1));
        self.update_score_config(project, &config, seen).await?;
        Ok(config)
    }

    /// One score config.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_config(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<ScoreConfig>, Error> {
        let mut found = self.score_configs_by_id(project, &[id.to_owned()]).await?;
        Ok(found.pop())
    }

    /// Score configs, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_configs(
        &self,
        project: &ProjectId,
        paging: Paging,
    ) -> Result<NumberedPage<ScoreConfig>, Error> {
        let args: [Arg<'_>; 1] = [project.as_str().into()];
        let listed = PageQuery {
            select: COLUMNS,
            from: "FROM score_configs WHERE project_id = $1",
            args: &args,
            order: "created_at DESC, id DESC",
        };
        self.pool.numbered::<ConfigRow, _>(&listed, paging).await
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::score::ScoreDataType;
    use perpend_domain::score_config::Category;

    use super::*;
    use crate::testing::on_each_database;

    fn config(id: &str, at: i64) -> ScoreConfig {
        ScoreConfig {
            id: id.to_owned(),
            name: "quality".to_owned(),
            data_type: ScoreDataType::Categorical,
            is_archived: false,
            min_value: None,
            max_value: None,
            categories: Some(vec![Category { value: 1.5, label: "go\"od".to_owned() }]),
            direction: Some(ScoreDirection::LowerIsBetter),
            description: None,
            created_at: Timestamp::from_millis(at),
            updated_at: Timestamp::from_millis(at),
        }
    }

    #[tokio::test]
    async fn configs_are_listed_newest_first_and_belong_to_one_project() {
        on_each_database(|store| async move {
            let (ours, theirs) = (ProjectId::new("a").unwrap(), ProjectId::new("b").unwrap());
            for (id, at) in [("one", 1), ("two", 2), ("three", 3)] {
                store.catalog.create_score_config(&ours, &config(id, at)).await.unwrap();
            }
            let page = |page, limit| Paging { page, limit };
            let found = store.catalog.score_configs(&ours, page(1, 2)).await.unwrap();
            let ids: Vec<&str> = found.items.iter().map(|c| c.id.as_str()).collect();
            assert_eq!((ids.as_slice(), found.n_total), (&["three", "two"][..], 3));
            assert_eq!(found.items[0], config("three", 3));
            let last = store.catalog.score_configs(&ours, page(3, 2)).await.unwrap();
            assert_eq!((last.items.len(), last.n_total), (0, 3));
            assert_eq!(store.catalog.score_config(&theirs, "one").await.unwrap(), None);
        })
        .await;
    }

    #[tokio::test]
    async fn a_direction_is_set_in_the_newest_config_of_the_name_or_in_a_new_one() {
        on_each_database(|store| async move {
            let project = ProjectId::new("a").unwrap();
            for (id, at) in [("one", 1), ("two", 2)] {
                store.catalog.create_score_config(&project, &config(id, at)).await.unwrap();
            }
            let higher = ScoreConfig {
                direction: Some(ScoreDirection::HigherIsBetter),
                ..config("three", 9)
            };
            let set = store.catalog.set_score_direction(&project, higher.clone()).await.unwrap();
            assert_eq!((set.id.as_str(), set.direction), ("two", higher.direction));
            let other = ScoreConfig { name: "other".to_owned(), ..higher };
            let set = store.catalog.set_score_direction(&project, other.clone()).await.unwrap();
            assert_eq!(set, other);
            let names = ["quality", "other"];
            let found = store.catalog.score_configs_by_name(&project, &names).await.unwrap();
            let ids: Vec<&str> = found.iter().map(|config| config.id.as_str()).collect();
            assert_eq!(ids, ["three", "two", "one"]);
        })
        .await;
    }

    #[tokio::test]
    async fn of_two_changes_to_the_same_version_one_is_refused() {
        on_each_database(|store| async move {
            let project = ProjectId::new("a").unwrap();
            let mut changed = config("one", 1);
            store.catalog.create_score_config(&project, &changed).await.unwrap();
            let seen = changed.updated_at;
            changed.is_archived = true;
            changed.updated_at = Timestamp::from_millis(9);
            store.catalog.update_score_config(&project, &changed, seen).await.unwrap();
            let again = store.catalog.update_score_config(&project, &changed, seen).await;
            assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
            let stored = store.catalog.score_config(&project, "one").await.unwrap();
            assert_eq!(stored, Some(changed));
        })
        .await;
    }
}
