//! Inputs of a comparison of runs in addition to their results: directions of scores, groups of items, further runs of the
//! baseline.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use perpend_domain::experiment::{ExperimentRun, ItemScore, RunQuery, RunResults};
use perpend_domain::ids::{EvaluatorVersionId, ProjectId};
use perpend_domain::plugin::ScoreDomain;
use perpend_domain::score_config::{ScoreConfig, ScoreDirection};
use perpend_experiments::CompareOptions;
use perpend_experiments::comparison::DirectionSource;
use perpend_experiments::options::{ItemGroups, ScoreDefinition, group_of};
use serde_json::Value;

use crate::Store;
use perpend_db::{Error, apart};

/// Newest runs over the dataset that are searched for further runs of the baseline.
const SEARCHED_RUNS: u32 = 50;
/// Further runs of the baseline that are read.
const MAX_NOISE_RUNS: usize = 2;

/// A comparison as it is requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComparisonQuery {
    /// Options. Stored definitions of scores complete those of the request; groups and further runs are replaced.
    pub options: CompareOptions,
    /// The metadata key whose values are compared separately.
    pub segment_by: Option<String>,
    /// The metadata key of items that depend on one another; each item is independent if absent.
    pub cluster_by: Option<String>,
    /// Ids of further runs of the baseline. If empty, runs over the same dataset with the same metadata are used.
    pub noise_runs: Vec<String>,
}

impl Store {
    /// The results of these runs in their order, or the id of an unknown one.
    ///
    /// # Errors
    /// When the database fails, or the results exceed the memory of the request.
    pub async fn results_of_runs(
        &self,
        project: &ProjectId,
        ids: &[String],
    ) -> Result<Result<Vec<RunResults>, String>, Error> {
        let reads = ids.iter().map(|id| apart(self.run_results(project, id)));
        let mut results = Vec::with_capacity(ids.len());
        for (found, id) in futures_util::future::join_all(reads).await.into_iter().zip(ids) {
            match found? {
                Some(found) => results.push(found),
                None => return Ok(Err(id.clone())),
            }
        }
        Ok(Ok(results))
    }

    /// The options of a comparison with everything that is stored about scores, items and further runs. The inner error
    /// is the id of an unknown run.
    ///
    /// # Errors
    /// When the database fails, or the results exceed the memory of the request.
    pub async fn compare_options(
        &self,
        project: &ProjectId,
        results: &[RunResults],
        query: &ComparisonQuery,
    ) -> Result<Result<CompareOptions, String>, Error> {
        let noise_runs = self.noise_run_ids(project, results, query).await?;
        self.compare_options_with(project, results, query, &noise_runs).await
    }

    /// As [`Store::compare_options`], with these further runs of the baseline.
    pub(crate) async fn compare_options_with(
        &self,
        project: &ProjectId,
        results: &[RunResults],
        query: &ComparisonQuery,
        noise_runs: &[String],
    ) -> Result<Result<CompareOptions, String>, Error> {
        let mut options = query.options.clone();
        for (name, definition) in self.score_definitions(project, results).await? {
            let requested = options.scores.entry(name).or_default();
            requested.direction = requested.direction.or(definition.direction);
            if requested.categories.is_empty() {
                requested.categories = definition.categories;
            }
        }
        if let Some(key) = &query.segment_by {
            options.segments = Some(self.item_groups(project, results, key).await?);
        }
        if let Some(key) = &query.cluster_by {
            options.clusters = Some(self.item_groups(project, results, key).await?);
        }
        match self.results_of_runs(project, noise_runs).await? {
            Ok(runs) => options.noise_runs = runs,
            // A run that was found by its metadata may be deleted meanwhile.
            Err(_) if query.noise_runs.is_empty() => {}
            Err(id) => return Ok(Err(id)),
        }
        Ok(Ok(options))
    }

    /// The ids of the further runs of the baseline: those of the query, or else runs with the same metadata.
    pub(crate) async fn noise_run_ids(
        &self,
        project: &ProjectId,
        results: &[RunResults],
        query: &ComparisonQuery,
    ) -> Result<Vec<String>, Error> {
        let base = match &query.options.base {
            Some(id) => results.iter().find(|run| run.run.id == *id),
            None => results.first(),
        };
        match (query.noise_runs.as_slice(), base) {
            ([], Some(base)) => self.equal_runs(project, base, results).await,
            (ids, _) => Ok(ids.to_vec()),
        }
    }

    /// The definitions of the scores of the runs: the newest score config of the name, or else the declaration of the
    /// evaluator.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_definitions(
        &self,
        project: &ProjectId,
        results: &[RunResults],
    ) -> Result<BTreeMap<String, ScoreDefinition>, Error> {
        let mut origins: BTreeMap<&str, BTreeSet<(&EvaluatorVersionId, &str)>> = BTreeMap::new();
        for score in scores(results) {
            let of_score = origins.entry(&score.name).or_default();
            if let Some(origin) = &score.origin {
                of_score.insert((&origin.evaluator_version_id, origin.score_name.as_str()));
            }
        }
        let names: Vec<&str> = origins.keys().copied().collect();
        let mut definitions: BTreeMap<String, ScoreDefinition> = BTreeMap::new();
        for config in self.catalog.score_configs_by_name(project, &names).await? {
            // Newest first; an older one supplies what a newer one leaves open.
            let definition = definitions.entry(config.name.clone()).or_default();
            add_config(definition, config);
        }
        let mut declared = Declarations { store: self, project, known: HashMap::new() };
        for (name, origins) in origins {
            let definition = definitions.entry(name.to_owned()).or_default();
            if definition.direction.is_none() {
                let direction = declared.direction(&origins).await?;
                definition.direction = direction.map(|found| (found, DirectionSource::Evaluator));
            }
        }
        Ok(definitions)
    }

    /// The values of a metadata key of the items of the dataset.
    async fn item_groups(
        &self,
        project: &ProjectId,
        results: &[RunResults],
        key: &str,
    ) -> Result<ItemGroups, Error> {
        let mut groups = ItemGroups { key: key.to_owned(), values: HashMap::new() };
        let Some(dataset) = results.iter().find_map(|run| run.run.dataset_id.as_deref()) else {
            return Ok(groups);
        };
        let ids: BTreeSet<&str> =
            results.iter().flat_map(|run| &run.items).map(|item| item.item_id.as_str()).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        for item in self.catalog.dataset_items_by_id(project, &ids).await? {
            let value = item.metadata.as_object().and_then(|members| members.get(key));
            if let Some(value) = value.and_then(group_of).filter(|_| item.dataset_id == dataset) {
                groups.values.insert(item.id, value);
            }
        }
        Ok(groups)
    }

    /// Newest runs over the dataset of the baseline with the same metadata. Metadata that all compared runs share do
    /// not tell versions of an application apart.
    async fn equal_runs(
        &self,
        project: &ProjectId,
        base: &RunResults,
        results: &[RunResults],
    ) -> Result<Vec<String>, Error> {
        let metadata = &base.run.metadata;
        let is_empty = match metadata {
            Value::Object(members) => members.is_empty(),
            other => other.is_null(),
        };
        let mut others = results.iter().filter(|run| run.run.id != base.run.id);
        let is_shared = others.all(|run| run.run.metadata == *metadata);
        let Some(dataset_id) = base.run.dataset_id.clone() else { return Ok(Vec::new()) };
        if is_empty || is_shared {
            return Ok(Vec::new());
        }
        let query = RunQuery { dataset_id: Some(dataset_id), after: None, limit: SEARCHED_RUNS };
        let found = self.telemetry.experiment_runs(project, &query).await?;
        let equal = found.items.into_iter().map(|summary| summary.run);
        let equal = equal.filter(|run| run.metadata == *metadata && run.id != base.run.id);
        Ok(equal.map(|run| run.id).take(MAX_NOISE_RUNS).collect())
    }
}

/// Directions that evaluators declare.
struct Declarations<'a> {
    store: &'a Store,
    project: &'a ProjectId,
    /// By version and the name that the plug-in gives the score.
    known: HashMap<(EvaluatorVersionId, String), Option<ScoreDirection>>,
}

impl Declarations<'_> {
    /// The direction that all of these versions declare.
    async fn direction(
        &mut self,
        origins: &BTreeSet<(&EvaluatorVersionId, &str)>,
    ) -> Result<Option<ScoreDirection>, Error> {
        let mut common = None;
        for (version, score) in origins {
            let Some(direction) = self.of_version(version, score).await? else { return Ok(None) };
            if common.is_some_and(|common| common != direction) {
                return Ok(None);
            }
            common = Some(direction);
        }
        Ok(common)
    }

    async fn of_version(
        &mut self,
        version: &EvaluatorVersionId,
        score: &str,
    ) -> Result<Option<ScoreDirection>, Error> {
        let key = (version.clone(), score.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let direction = self.read(version, score).await?;
        self.known.insert(key, direction);
        Ok(direction)
    }

    async fn read(
        &self,
        version: &EvaluatorVersionId,
        score: &str,
    ) -> Result<Option<ScoreDirection>, Error> {
        let catalog = &self.store.catalog;
        let Some((_, version)) = catalog.evaluator_version(self.project, version).await? else {
            return Ok(None);
        };
        let Some(plugin) = catalog.plugin(self.project, &version.plugin).await? else {
            return Ok(None);
        };
        let mut evaluators = plugin.info.evaluators.iter();
        let evaluator = evaluators.find(|evaluator| evaluator.id == version.plugin_evaluator);
        let mut declared = evaluator.into_iter().flat_map(|evaluator| &evaluator.scores);
        let domain = declared.find(|spec| spec.name == score).map(|spec| &spec.domain);
        Ok(match domain {
            Some(ScoreDomain::Numeric { higher_is_better: true, .. }) => {
                Some(ScoreDirection::HigherIsBetter)
            }
            Some(ScoreDomain::Numeric { .. }) => Some(ScoreDirection::LowerIsBetter),
            Some(ScoreDomain::Boolean | ScoreDomain::Categorical(_)) | None => None,
        })
    }
}

fn scores(results: &[RunResults]) -> impl Iterator<Item = &ItemScore> {
    results.iter().flat_map(|run| &run.items).flat_map(|item| &item.scores)
}

fn add_config(definition: &mut ScoreDefinition, config: ScoreConfig) {
    if definition.direction.is_none() {
        let direction = config.direction;
        definition.direction = direction.map(|direction| (direction, DirectionSource::ScoreConfig));
    }
    if definition.categories.is_empty() {
        let categories = config.categories.into_iter().flatten();
        definition.categories =
            categories.map(|category| (category.label, category.value)).collect();
    }
}

/// Runs per page of a search by name.
const PER_PAGE: u32 = 100;
/// Runs that are searched by name.
const MAX_SEARCHED: usize = 1_000;

impl Store {
    /// The id of the run to which a reference refers: its id, the newest run with this name, or `branch:NAME` for the
    /// newest run whose metadata have this `branch`. `of` restricts names and branches to other runs over the dataset of
    /// that run.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn find_run(
        &self,
        project: &ProjectId,
        reference: &str,
        of: Option<&ExperimentRun>,
    ) -> Result<Option<String>, Error> {
        if !self.telemetry.runs_by_id(project, &[reference]).await?.is_empty() {
            return Ok(Some(reference.to_owned()));
        }
        let branch = reference.strip_prefix("branch:");
        let is_meant = |run: &ExperimentRun| match branch {
            Some(branch) => run.metadata["branch"] == *branch,
            None => run.name == reference,
        };
        let is_other = |run: &ExperimentRun| of.is_none_or(|of| of.id != run.id);
        let dataset_id = of.and_then(|of| of.dataset_id.clone());
        let mut query = RunQuery { dataset_id, after: None, limit: PER_PAGE };
        for _ in 0..MAX_SEARCHED / PER_PAGE as usize {
            let page = self.telemetry.experiment_runs(project, &query).await?;
            let mut runs = page.items.into_iter().map(|summary| summary.run);
            if let Some(run) = runs.find(|run| is_meant(run) && is_other(run)) {
                return Ok(Some(run.id));
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        let Some(dataset_id) = query.dataset_id.as_deref().filter(|_| branch.is_none()) else {
            return Ok(None);
        };
        // The name with which a renamed run was created.
        let id = self.telemetry.run_id_of_name(project, dataset_id, reference).await?;
        let found = self.telemetry.experiment_run(project, &id).await?;
        Ok(found.filter(is_other).map(|run| run.id))
    }
}
