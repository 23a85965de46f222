//! `GET P/experiments`: the runs of experiments, newest first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::future::try_join_all;
use perpend_catalog::datasets::StoredDataset;
use perpend_domain::access::Permission::ExperimentWrite;
use perpend_domain::experiment::{RunQuery, RunSummary};
use perpend_domain::list::{Cursor, Page, Paging};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading::apart;
use perpend_views::{
    ApiRequest, ExperimentLine, ExperimentsPage, ItemCounts, PageLinks, RunChart, RunPoint,
    RunTable, Section, Text, run_href, with_query,
};
use serde::Deserialize;

use crate::experiments::report::RunReport;
use crate::request::cursor;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::state::App;

/// Runs per page.
const PAGE: u32 = 20;
/// Runs that are tested for one page if names are filtered.
const MAX_TESTED: u32 = 500;
/// Score columns.
const MAX_SCORES: usize = 6;
/// Results of all runs of a page from which scores are computed.
const MAX_RESULTS: u64 = 20_000;
/// Datasets to filter by.
const MAX_DATASETS: u32 = 200;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ExperimentListParams {
    q: String,
    dataset: String,
    score: String,
    after: String,
}

impl ExperimentListParams {
    /// The runs of a dataset after a position, with a chart of a score.
    pub(crate) fn of_dataset(id: &str, score: Option<&str>, after: Option<&str>) -> Self {
        Self {
            q: String::new(),
            dataset: id.to_owned(),
            score: score.unwrap_or_default().to_owned(),
            after: after.unwrap_or_default().to_owned(),
        }
    }

    /// The filter as query parameters.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let own = [("q", self.q.trim()), ("dataset", self.dataset.as_str())];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        own.map(|(name, value)| (name, value.to_owned())).collect()
    }

    fn address(&self, base: &str, more: &[(&'static str, &str)]) -> String {
        let mut pairs = self.pairs();
        pairs.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        with_query(&format!("{base}/experiments"), &pairs)
    }
}

/// `GET P/experiments`
pub(crate) async fn list_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Query(params): Query<ExperimentListParams>,
) -> Result<Response, Problem> {
    let base = viewer.base();
    let found = newest_datasets(&app, &viewer).await?;
    let baselines: HashSet<&str> =
        found.iter().filter_map(|one| one.baseline_run_id.as_deref()).collect();
    let address = |more: &[(&'static str, &str)]| params.address(&base, more);
    let page_of_runs = page_of_runs(&app, &viewer, &params, (&baselines, &address));
    let page_of_runs = Box::pin(page_of_runs).await?;
    let datasets: Vec<(String, Text, bool)> = found
        .into_iter()
        .map(|found| {
            let is_selected = found.dataset.id == params.dataset;
            (found.dataset.id, Text::from(found.dataset.name), is_selected)
        })
        .collect();
    let example = datasets.first().map_or("questions", |(_, name, _)| name.raw()).to_owned();
    let setup = match page_of_runs.table.runs.is_empty() {
        true => Some(setup::setup_guide(&app, &viewer.project, &headers).await?),
        false => None,
    };
    let may_write = viewer.may(ExperimentWrite);
    let api = ApiRequest::new(&viewer.origin, "/api/public/experiments")
        .with_note("It returns all runs without their scores.");
    let view = ExperimentsPage {
        shell: viewer.shell(Section::Experiments).with_api([api]),
        notices: page_of_runs.notices,
        q: params.q.trim().to_owned(),
        datasets,
        table: page_of_runs.table,
        page_links: page_of_runs.page_links,
        is_filtered: !params.pairs().is_empty(),
        is_later: page_of_runs.is_later,
        new_href: may_write.then(|| format!("{base}/experiments/new")),
        exports: exports(&params, &base),
        setup,
        example_dataset: example,
    };
    page(StatusCode::OK, &view)
}

/// A page of runs as a table.
pub(crate) struct PageOfRuns {
    pub(crate) table: RunTable,
    pub(crate) page_links: PageLinks,
    /// Whether it is not the first page.
    pub(crate) is_later: bool,
    pub(crate) notices: Vec<Text>,
}

/// The URL of a list of runs with further query parameters.
pub(crate) type RunsAddress<'a> = dyn Fn(&[(&'static str, &str)]) -> String + Send + Sync + 'a;

/// The runs of a page with their scores. `baselines` are ids of runs that are the baseline of their dataset.
pub(crate) async fn page_of_runs(
    app: &App,
    viewer: &Viewer,
    params: &ExperimentListParams,
    (baselines, address): (&HashSet<&str>, &RunsAddress<'_>),
) -> Result<PageOfRuns, Problem> {
    let mut notices = Vec::new();
    let position = ((params.after.as_str(), ""), "list");
    let after = cursor::parse_position(position, cursor::parse_cursor, &mut notices).cursor;
    let is_later = after.is_some();
    let found = runs(app, viewer, params, (after, PAGE)).await?;
    let reports = reports(app, viewer, &found.items, &mut notices).await?;
    let names = score_names(&reports);
    let columns: Vec<&str> = names.iter().take(MAX_SCORES).map(String::as_str).collect();
    let base = viewer.base();
    let next = found.next.as_ref().map(|next| {
        let place = format!("{}.{}", next.at.as_micros(), next.id);
        ("Older", address(&[("after", place.as_str())]))
    });
    let lines = found.items.iter().zip(&reports).map(|(run, report)| {
        let is_baseline = baselines.contains(run.run.id.as_str());
        line(run, report.as_ref(), &columns, &base).as_baseline(is_baseline)
    });
    let chart_links = names.iter().map(|name| {
        let is_own = chart_name(&params.score, &names) == Some(name.as_str());
        (Text::from(name.as_str()), address(&[("score", name.as_str())]), is_own)
    });
    Ok(PageOfRuns {
        table: RunTable {
            runs: lines.collect(),
            score_names: columns.iter().map(|name| Text::from(*name)).collect(),
            n_more_scores: names.len().saturating_sub(MAX_SCORES),
            chart: chart(&found.items, &reports, chart_name(&params.score, &names), &base),
            chart_links: chart_links.collect(),
            has_datasets: true,
            may_delete: viewer.may(ExperimentWrite),
            baseline_action: None,
        },
        page_links: PageLinks {
            first: is_later.then(|| address(&[])),
            previous: None,
            next,
            last: None,
        },
        is_later,
        notices,
    })
}

/// Labels and URLs of the list as files.
fn exports(params: &ExperimentListParams, base: &str) -> Vec<(&'static str, String)> {
    let formats = [("Export as CSV", "csv"), ("Export as JSON Lines", "jsonl")];
    let links = formats.map(|(label, format)| {
        let mut pairs = params.pairs();
        pairs.push(("format", format.to_owned()));
        (label, with_query(&format!("{base}/export/experiments"), &pairs))
    });
    links.into()
}

/// A page of runs whose names contain the text of the filter.
pub(super) async fn runs(
    app: &App,
    viewer: &Viewer,
    params: &ExperimentListParams,
    (after, limit): (Option<Cursor>, u32),
) -> Result<Page<RunSummary>, Problem> {
    let text = params.q.trim().to_lowercase();
    let dataset_id = Some(params.dataset.clone()).filter(|id| !id.is_empty());
    let query =
        RunQuery { dataset_id, after, limit: if text.is_empty() { limit } else { MAX_TESTED } };
    let mut found = app.store.telemetry.experiment_runs(&viewer.project, &query).await?;
    if text.is_empty() {
        return Ok(found);
    }
    found.items.retain(|one| one.run.name.to_lowercase().contains(&text));
    if (limit as usize) < found.items.len() {
        found.items.truncate(limit as usize);
        found.next =
            found.items.last().map(|last| Cursor::new(last.run.created_at, last.run.id.clone()));
    }
    Ok(found)
}

/// The report of each run; absent for runs beyond the limit of a page.
async fn reports(
    app: &App,
    viewer: &Viewer,
    runs: &[RunSummary],
    notices: &mut Vec<Text>,
) -> Result<Vec<Option<RunReport>>, Problem> {
    let mut n_results = 0;
    let read: Vec<&RunSummary> = runs
        .iter()
        .enumerate()
        .take_while(|(at, one)| {
            n_results += one.totals.n_items;
            *at == 0 || n_results <= MAX_RESULTS
        })
        .map(|(_, one)| one)
        .collect();
    let n_left_out = (runs.len() - read.len()) as u64;
    let reads = read.into_iter().map(|one| apart(report(app, viewer, &one.run.id)));
    let mut reports = try_join_all(reads).await?;
    reports.resize_with(runs.len(), || None);
    if 0 < n_left_out {
        notices.push(Text::from(format!(
            "The scores of {} are on their own pages, because the runs of this list have more than 20,000 results.",
            perpend_views::plural(n_left_out, "run")
        )));
    }
    Ok(reports)
}

/// The report of a run; absent if it was deleted meanwhile.
async fn report(app: &App, viewer: &Viewer, id: &str) -> Result<Option<RunReport>, Problem> {
    Ok(match app.store.run_results(&viewer.project, id).await? {
        Some(results) => Some(RunReport::of(app, &viewer.project, &results).await?),
        None => None,
    })
}

/// Names of numeric scores, most frequent first.
fn score_names(reports: &[Option<RunReport>]) -> Vec<String> {
    let mut n_by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for scores in reports.iter().flatten().flat_map(|report| &report.scores) {
        if scores.values.mean.is_some() {
            *n_by_name.entry(&scores.name).or_default() += 1;
        }
    }
    let mut names: Vec<(&str, usize)> = n_by_name.into_iter().collect();
    // The sort is stable: equally frequent names stay sorted by name.
    names.sort_by_key(|(_, n)| Reverse(*n));
    names.into_iter().map(|(name, _)| name.to_owned()).collect()
}

fn chart_name<'n>(selected: &str, names: &'n [String]) -> Option<&'n str> {
    let named = names.iter().find(|name| *name == selected);
    named.or(names.first()).map(String::as_str)
}

fn line(
    one: &RunSummary,
    report: Option<&RunReport>,
    columns: &[&str],
    base: &str,
) -> ExperimentLine {
    let (run, totals) = (&one.run, one.totals);
    let mut line = ExperimentLine::new((&run.id, &run.name), run.created_at, base);
    if let Some(id) = &run.dataset_id {
        line = line.of_dataset((id, run.dataset_name.as_deref().unwrap_or(id)), base);
    }
    let scores = columns.iter().map(|name| report?.score(name));
    let scores = scores.collect();
    let counts = report.map_or(
        ItemCounts { n_seen: totals.n_items, n_failed: totals.n_errors, ..ItemCounts::default() },
        RunReport::counts,
    );
    let (cost, latency) = figures(one, report);
    line.with_items(counts, scores).with_figures(cost, latency)
}

/// Cost and mean latency as on the page of the run, or from sums over all results and attempts.
pub(super) fn figures(one: &RunSummary, report: Option<&RunReport>) -> (Option<f64>, Option<f64>) {
    match report.map(|report| &report.figures) {
        Some(figures) => (figures.total_cost_usd, figures.latency_ms.mean),
        None => (one.totals.cost_usd, one.totals.mean_latency_ms),
    }
}

/// The chart of a score over the runs of the page, oldest first; absent with fewer than two runs.
fn chart(
    runs: &[RunSummary],
    reports: &[Option<RunReport>],
    name: Option<&str>,
    base: &str,
) -> Option<RunChart> {
    let name = name.filter(|_| 1 < runs.len())?;
    let points = runs.iter().zip(reports).rev().map(|(one, report)| RunPoint {
        name: Text::from(one.run.name.as_str()),
        href: run_href(base, &one.run.id),
        estimate: report.as_ref().and_then(|report| report.score(name)),
    });
    Some(RunChart::new(name, &points.collect::<Vec<_>>()))
}

/// The datasets to filter by.
async fn newest_datasets(app: &App, viewer: &Viewer) -> Result<Vec<StoredDataset>, Problem> {
    let paging = Paging { page: 1, limit: MAX_DATASETS };
    Ok(app.store.catalog.datasets(&viewer.project, paging).await?.items)
}
