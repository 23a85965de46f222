//! Numeric values of the categories of categorical scores.

use std::collections::{BTreeSet, HashMap};

use perpend_domain::ids::ProjectId;
use perpend_domain::score::{Score, ScoreValue};
use perpend_domain::score_config::ScoreConfig;

use crate::{Catalog, Error};

/// Numeric values of categories, by score config.
#[derive(Debug, Default)]
pub struct Categories(HashMap<String, ScoreConfig>);

impl Categories {
    /// The values of the score configs of these scores.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn of<'s>(
        catalog: &Catalog,
        project: &ProjectId,
        scores: impl IntoIterator<Item = &'s Score>,
    ) -> Result<Self, Error> {
        let of_categorical = |score: &'s Score| match score.written.value {
            ScoreValue::Categorical(_) => score.written.config_id.clone(),
            _ => None,
        };
        let ids: BTreeSet<String> = scores.into_iter().filter_map(of_categorical).collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let found = catalog.score_configs_by_id(project, &ids).await?;
        let by_id = found.into_iter().map(|config| (config.id.clone(), config));
        Ok(Self(by_id.collect()))
    }

    /// The numeric value of a label, by the config of its score; 0 if the config has none.
    #[must_use]
    pub fn number(&self, score: &Score, label: &str) -> f64 {
        let config = score.written.config_id.as_ref();
        let config = config.and_then(|id| self.0.get(id));
        config.and_then(|config| config.number_of(label)).unwrap_or(0.0)
    }
}
