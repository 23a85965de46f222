//! Parameters and data of the pages that compare runs.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use perpend_domain::dataset::DatasetItem;
use perpend_domain::experiment::{ExperimentRun, RunResults};
use perpend_experiments::ItemSelection;
use perpend_experiments::comparison::ItemComparison;
use perpend_experiments::options::{CompareOptions, group_of, parse_correction, parse_reducer};
use perpend_http_kit::problem::Problem;
use perpend_storage::{CompareRunsError, ComparedRuns, ComparisonQuery};
use perpend_views::{OutputDiff, RunsQuery, Text};

use crate::request::viewer::Viewer;
use crate::state::App;

/// Items of a dataset whose metadata keys are offered as segments.
const SAMPLED_ITEMS: usize = 50;
/// Offered metadata keys.
const MAX_KEYS: usize = 12;

/// Parsed query parameters of a comparison.
#[derive(Debug, Default)]
pub(super) struct ComparisonParams {
    pub(super) query: RunsQuery,
    /// Whether the runs were selected with a form, so that the URL is not that of the comparison.
    pub(super) is_of_form: bool,
    /// Whether the form has a baseline.
    pub(super) has_baseline: bool,
    pub(super) notices: Vec<Text>,
}

impl ComparisonParams {
    pub(super) fn new(raw: Option<&str>) -> Self {
        let mut params = Self::default();
        let mut selected = Vec::new();
        let mut baseline = None;
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            let text = value.trim();
            let query = &mut params.query;
            let mut fault = |expected: &str| {
                let got: String = text.chars().take(100).collect();
                let fault = format!("`{name}` must be one of {expected}; got `{got}`.");
                params.notices.push(Text::from(fault));
            };
            match name.as_ref() {
                "runs" => query.runs = RunsQuery::parse_runs(text),
                "run" => selected.extend(RunsQuery::parse_runs(text)),
                "baseline" => baseline = RunsQuery::parse_runs(text).into_iter().next(),
                "base" if !text.is_empty() => query.base = Some(text.to_owned()),
                "show" => match ItemSelection::parse(text) {
                    Some(show) => query.show = show,
                    None => {
                        fault(
                            "`regressed`, `improved`, `changed`, `errors`, `missing`, `disagree`",
                        );
                    }
                },
                "diff" => match OutputDiff::parse(text) {
                    Some(diff) => query.diff = diff,
                    None => fault("`expected`, `off`"),
                },
                "correction" if !text.is_empty() => match parse_correction(text) {
                    Ok(_) => query.correction = Some(text.to_owned()),
                    Err(_) => fault("`holm`, `bh`, `bonferroni`"),
                },
                "reducer" if !text.is_empty() => match parse_reducer(text) {
                    Ok(_) => query.reducer = Some(text.to_owned()),
                    Err(_) => fault(
                        "`mean`, `median`, `mode`, `max`, `at_least:K`, `pass_at:K`, `pass_k:K`",
                    ),
                },
                "segment" if !text.is_empty() => query.segment = Some(text.to_owned()),
                "at" => query.at = text.parse().unwrap_or_default(),
                _ => {}
            }
        }
        params.is_of_form = !selected.is_empty();
        params.has_baseline = baseline.is_some();
        if params.is_of_form {
            // Lists are sorted from new to old; the oldest run is the baseline.
            params.query.runs = baseline.into_iter().chain(selected.into_iter().rev()).collect();
        }
        params
    }
}

/// Moves the baseline of the dataset to the front, if it is one of the runs.
pub(super) async fn put_baseline_first(
    app: &App,
    viewer: &Viewer,
    runs: &mut Vec<String>,
) -> Result<(), Problem> {
    let Some(first) = runs.first() else { return Ok(()) };
    let run = app.store.telemetry.experiment_run(&viewer.project, first).await?;
    let baseline = baseline_of(app, viewer, run.and_then(|run| run.dataset_id).as_deref()).await?;
    if let Some(at) = runs.iter().position(|id| baseline.as_ref() == Some(id)) {
        let baseline = runs.remove(at);
        runs.insert(0, baseline);
    }
    Ok(())
}

/// The run that the other runs of a dataset are compared with; absent if it was deleted.
async fn baseline_of(
    app: &App,
    viewer: &Viewer,
    dataset_id: Option<&str>,
) -> Result<Option<String>, Problem> {
    let Some(id) = dataset_id else { return Ok(None) };
    let dataset = app.store.catalog.dataset_by_id(&viewer.project, id).await?;
    let Some(run) = dataset.and_then(|stored| stored.baseline_run_id) else { return Ok(None) };
    let found = app.store.telemetry.experiment_run(&viewer.project, &run).await?;
    Ok(found.map(|found| found.id))
}

/// The run that a run is compared with: the one with which the server started it, or else that of its dataset; never itself.
pub(super) async fn baseline_of_run(
    app: &App,
    viewer: &Viewer,
    run: &ExperimentRun,
) -> Result<Option<String>, Problem> {
    let project = &viewer.project;
    if let Some(id) = app.store.ledger.baseline_of_run(project, &run.id).await?
        && app.store.telemetry.experiment_run(project, &id).await?.is_some()
    {
        return Ok(Some(id));
    }
    let of_dataset = baseline_of(app, viewer, run.dataset_id.as_deref()).await?;
    Ok(of_dataset.filter(|id| *id != run.id))
}

/// The comparison of a query; the inner error is the reason for its absence.
pub(super) async fn compared_runs(
    app: &App,
    viewer: &Viewer,
    query: &RunsQuery,
) -> Result<Result<Arc<ComparedRuns>, Text>, Problem> {
    let mut options = CompareOptions { base: query.base.clone(), ..CompareOptions::default() };
    let correction = query.correction.as_deref().and_then(|name| parse_correction(name).ok());
    options.correction = correction.unwrap_or(options.correction);
    let reducer = query.reducer.as_deref().and_then(|name| parse_reducer(name).ok());
    options.reducer = reducer.unwrap_or(options.reducer);
    let comparison = ComparisonQuery {
        options,
        segment_by: query.segment.clone(),
        ..ComparisonQuery::default()
    };
    let now = app.web.clock.now();
    let runs = app.store.compare_runs(&viewer.project, &query.runs, &comparison, now).await?;
    Ok(runs.map_err(|error| match error {
        CompareRunsError::UnknownRun(id) | CompareRunsError::UnknownNoiseRun(id) => {
            Text::from(format!("unknown run `{id}`"))
        }
        CompareRunsError::Compare(error) => Text::from(error.to_string()),
    }))
}

/// The items of a selection, largest regression first, or largest improvement first.
pub(super) async fn selected<'r>(
    app: &App,
    viewer: &Viewer,
    runs: &'r ComparedRuns,
    show: ItemSelection,
) -> Result<Vec<&'r ItemComparison>, Problem> {
    let mut items = app.store.selected_items(&viewer.project, runs, show).await?;
    if show == ItemSelection::Improved {
        items.reverse();
    }
    Ok(items)
}

/// The items of the dataset among these ids.
async fn items(
    app: &App,
    viewer: &Viewer,
    results: &[RunResults],
    ids: &[&str],
) -> Result<Vec<DatasetItem>, Problem> {
    let Some(dataset) = results.first().and_then(|run| run.run.dataset_id.as_deref()) else {
        return Ok(Vec::new());
    };
    let mut found = app.store.catalog.dataset_items_by_id(&viewer.project, ids).await?;
    found.retain(|item| item.dataset_id == dataset);
    Ok(found)
}

/// Metadata keys of the first items, most frequent first.
pub(super) async fn metadata_keys(
    app: &App,
    viewer: &Viewer,
    runs: &ComparedRuns,
) -> Result<Vec<String>, Problem> {
    let first = runs.comparison.items.iter().take(SAMPLED_ITEMS);
    let ids: Vec<&str> = first.map(|item| item.item_id.as_str()).collect();
    let mut n_by_key: BTreeMap<String, usize> = BTreeMap::new();
    for item in items(app, viewer, &runs.results, &ids).await? {
        for (key, value) in item.metadata.as_object().into_iter().flatten() {
            if group_of(value).is_some() {
                *n_by_key.entry(key.clone()).or_default() += 1;
            }
        }
    }
    let mut keys: Vec<(String, usize)> = n_by_key.into_iter().collect();
    // The sort is stable: equally frequent keys stay sorted by name.
    keys.sort_by_key(|(_, n)| Reverse(*n));
    Ok(keys.into_iter().take(MAX_KEYS).map(|(key, _)| key).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_selected_run_or_the_selected_baseline_comes_first() {
        let params = ComparisonParams::new(Some("run=new&run=a%252Cb"));
        assert_eq!(params.query.runs, ["a,b", "new"]);
        assert!(params.is_of_form);
        let params = ComparisonParams::new(Some("run=new&baseline=old"));
        assert_eq!(params.query.runs, ["old", "new"]);
        let params = ComparisonParams::new(Some("runs=a%252Cb,new&base=new&show=improved&at=25"));
        assert_eq!(params.query.runs, ["a,b", "new"]);
        assert_eq!(params.query.baseline(), Some("new"));
        assert_eq!((params.query.show, params.query.at), (ItemSelection::Improved, 25));
        assert!(!params.is_of_form && params.notices.is_empty());
    }

    #[test]
    fn an_invalid_choice_adds_a_notice() {
        let params = ComparisonParams::new(Some("runs=a,b&show=odd&diff=odd&at=x"));
        let notices: Vec<&str> = params.notices.iter().map(Text::raw).collect();
        assert!(notices[0].starts_with("`show` must be one of `regressed`"), "{notices:?}");
        assert!(notices[1].starts_with("`diff` must be one of"), "{notices:?}");
        assert_eq!((params.query.at, notices.len()), (0, 2));
    }
}
