//! `GET P/experiments/{experiment}`: a run with the account of its items, its scores and its items, worst first.

use std::collections::{BTreeMap, HashSet};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use perpend_domain::access::Permission::ExperimentWrite;
use perpend_domain::experiment::{
    ExperimentRun, ItemResult, RunAccount, RunQuery, RunResults, escaped_run_id, unescaped_run_id,
};
use perpend_domain::ids::RuleId;
use perpend_domain::payload::Payload;
use perpend_domain::score::ScoreValue;
use perpend_domain::score_config::ScoreDirection;
use perpend_domain::time::Timestamp;
use perpend_executions::RunProgress;
use perpend_experiments::options::ScoreDefinition;
use perpend_experiments::run_summary::ScoreSummary as SummaryOfScores;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading::apart;
use perpend_views::{
    ApiRequest, EvaluatorCountLine, NewsFragment, ResourceLink, RunItem, RunPage, RunScoreLine,
    RunsQuery, ScoreSummary, Section, Text, beginning, decode_segment, encode, plural, run_href,
    segment, with_query,
};
use serde::Deserialize;

use crate::experiments::comparison::baseline_of_run;
use crate::experiments::contents::{DatasetItems, ResultContents, ResultPlace};
use crate::experiments::progress::progress_view;
use crate::experiments::report::{RunReport, item_values, score_estimate};
use crate::list::news::news_response;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Items per page.
const PAGE: usize = 25;
/// Runs offered as a baseline.
const MAX_OTHERS: u32 = 50;
/// A run that did not change for this time is not polled.
const LIVE_MS: i64 = 3_600_000;

#[derive(Debug, Deserialize)]
pub(crate) struct RunPath {
    experiment: String,
}

impl RunPath {
    pub(super) fn id(&self) -> &str {
        unescaped_run_id(decode_segment(&self.experiment))
    }

    /// The results of the run.
    pub(super) async fn results(&self, app: &App, viewer: &Viewer) -> Result<RunResults, Problem> {
        let found = apart(app.store.run_results(&viewer.project, self.id())).await?;
        found.ok_or_else(|| Problem::not_found("run"))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct DatasetRunPath {
    dataset: String,
    run: String,
}

/// `GET P/datasets/{dataset}/runs/{run}`: the URL that clients print after an experiment.
pub(crate) async fn dataset_run(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetRunPath>,
) -> Result<Response, Problem> {
    let telemetry = &app.store.telemetry;
    let is_known = match telemetry.dataset_run(&viewer.project, &path.run).await? {
        Some(run) => run.dataset_id == path.dataset,
        // A run without links consists of spans.
        None => {
            let totals = telemetry.run_totals(&viewer.project, &[path.run.as_str()]).await?;
            totals.get(&path.run).is_some_and(|totals| 0 < totals.n_items)
        }
    };
    match is_known {
        true => Ok(Redirect::to(&run_href(&viewer.base(), &path.run)).into_response()),
        false => Err(Problem::not_found("run")),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RunPageParams {
    show: String,
    at: String,
}

/// Selections of items: value of the parameter and label.
const VIEWS: [(&str, &str); 4] =
    [("", "Worst first"), ("errors", "Errors"), ("missing", "Missing"), ("time", "By start")];

/// `GET P/experiments/{experiment}`
pub(crate) async fn run_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<RunPath>,
    Query(params): Query<RunPageParams>,
) -> Result<Response, Problem> {
    let results = path.results(&app, &viewer).await?;
    let report = RunReport::of(&app, &viewer.project, &results).await?;
    let base = viewer.base();
    let href = run_href(&base, &results.run.id);
    let mut notices = Vec::new();
    let show = VIEWS.iter().map(|(value, _)| *value).find(|value| *value == params.show);
    let show = show.unwrap_or_else(|| {
        let fault = "`show` must be one of `errors`, `missing`, `time`; showing the worst first.";
        notices.push(Text::from(fault));
        ""
    });
    let definitions =
        app.store.score_definitions(&viewer.project, std::slice::from_ref(&results)).await?;
    let rows = rows(&results, show, &definitions);
    let at = super::page_start(&params.at, rows.len(), PAGE);
    let shown: Vec<Row<'_>> = rows.iter().skip(at).take(PAGE).copied().collect();
    let items = items(&app, &viewer, &results, &shown).await?;
    let address = |show: &str, at: usize| {
        let pairs = [("show", show.to_owned()), ("at", at.to_string())];
        let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty() && value != "0");
        with_query(&href, &pairs.collect::<Vec<_>>())
    };
    let run = &results.run;
    let api = format!("/api/v1/experiments/{}", encode(&run.id));
    let api = ApiRequest::new(&viewer.origin, &api);
    let is_live = app.web.clock.now().as_millis() - run.updated_at.as_millis() < LIVE_MS;
    let id = segment(&escaped_run_id(&run.id));
    let news = format!("{base}/_/experiments/{id}/news?n={}", report.account.n_results);
    let server_run = app.store.ledger.run_progress(&viewer.project, &run.id).await?;
    let (progress, changes) = match server_run.as_ref().map(progress_view) {
        Some((progress, changes)) if viewer.may(ExperimentWrite) => (Some(progress), changes),
        Some((progress, _)) => (Some(progress), Vec::new()),
        None => (None, Vec::new()),
    };
    let (rule, baseline) = scoring(&app, &viewer, server_run.as_ref()).await?;
    let view = RunPage {
        shell: viewer.shell(Section::Experiments).with_api([api]),
        notices,
        id: Text::from(run.id.as_str()),
        name: Text::from(run.name.as_str()),
        description: run.description.as_deref().map(Text::lines),
        dataset: dataset(run, &base),
        created_at: run.created_at,
        updated_at: run.updated_at,
        counts: report.counts(),
        n_results: report.account.n_results,
        is_complete: report.account.is_complete,
        account_notes: account_notes(&report.account),
        cost_usd: report.figures.total_cost_usd,
        n_tokens: report.figures.total_tokens,
        latency: report.latency(),
        metadata: metadata(run),
        scores: report.scores.iter().map(|scores| score_summary(scores, &results)).collect(),
        run_scores: run_scores(&results),
        evaluators: evaluators(&app, &viewer, &report).await?,
        items,
        position: super::position(at, shown.len(), rows.len()),
        page_links: super::page_links(at, (shown.len(), rows.len()), PAGE, |at| address(show, at)),
        views: VIEWS
            .iter()
            .map(|(value, label)| (*label, address(value, 0), *value == show))
            .collect(),
        others: others(&app, &viewer, &results).await?,
        may_change: viewer.may(ExperimentWrite),
        news_href: is_live.then_some(news),
        progress,
        changes,
        rule,
        baseline,
        href: href.clone(),
    };
    page(StatusCode::OK, &view)
}

/// The rule of the evaluators of the experiment; name of the baseline, and URL of the comparison with it.
async fn scoring(
    app: &App,
    viewer: &Viewer,
    run: Option<&RunProgress>,
) -> Result<(Option<ResourceLink>, Option<(Text, String)>), Problem> {
    let project = &viewer.project;
    let Some(run) = run else {
        return Ok((None, None));
    };
    let rule = match run.rule_id.as_deref().map(RuleId::new) {
        Some(Ok(id)) => app.store.catalog.rule(project, &id).await?,
        _ => None,
    };
    let rule = rule.map(|rule| ResourceLink::new(&rule.name, rule.id.as_str()));
    let Some(id) = &run.baseline_id else {
        return Ok((rule, None));
    };
    let found = app.store.telemetry.dataset_run(project, id).await?;
    let name = found.map_or_else(|| id.clone(), |found| found.name);
    let runs = vec![id.clone(), run.id.clone()];
    let compared = RunsQuery { runs, ..RunsQuery::default() };
    Ok((rule, Some((Text::from(name), compared.address(&viewer.base())))))
}

/// Name and URL of the dataset.
fn dataset(run: &ExperimentRun, base: &str) -> Option<(Text, String)> {
    let id = run.dataset_id.as_ref()?;
    let name = run.dataset_name.as_deref().unwrap_or(id);
    Some((Text::from(name), format!("{base}/datasets/{}", encode(id))))
}

fn metadata(run: &ExperimentRun) -> Option<Text> {
    let pretty = serde_json::to_string_pretty(&run.metadata).ok();
    pretty.filter(|_| !run.metadata.is_null()).map(Text::lines)
}

/// Sentences about results that do not fit: pending, repeated, or of items that are not expected.
fn account_notes(account: &RunAccount) -> Vec<Text> {
    let notes = [
        (account.n_pending_results, "result", "linked to a trace that has not arrived"),
        (account.n_duplicate_results, "result", "in addition to those of the other items"),
        (account.n_missing_results, "result", "missing: other items have more results"),
        (account.n_unexpected.unwrap_or_default(), "item", "not in the version of the dataset"),
    ];
    let present = notes.into_iter().filter(|(n, ..)| 0 < *n);
    present.map(|(n, noun, words)| Text::from(format!("{}: {words}.", plural(n, noun)))).collect()
}

fn score_summary(scores: &SummaryOfScores, results: &RunResults) -> ScoreSummary {
    let values = &scores.values;
    let summary = ScoreSummary::new(&scores.name, [values.n, values.n_missing]);
    let summary = match score_estimate(scores) {
        Some(estimate) => summary.with_mean(estimate, values.stderr, &item_values(results, scores)),
        None => summary,
    };
    let categories = scores.categories.iter().map(|one| (one.category.clone(), one.n));
    summary.with_categories(&categories.collect::<Vec<_>>())
}

/// The evaluators of the items, with the numbers of results with and without a score.
async fn evaluators(
    app: &App,
    viewer: &Viewer,
    report: &RunReport,
) -> Result<Vec<EvaluatorCountLine>, Problem> {
    let mut lines = Vec::with_capacity(report.account.evaluators.len());
    for one in &report.account.evaluators {
        let id = one.evaluator_id.as_str();
        let found = app.store.catalog.evaluator(&viewer.project, &one.evaluator_id).await?;
        let evaluator = match found {
            Some(evaluator) => ResourceLink::new(&evaluator.name, id),
            None => ResourceLink::deleted(format!("{id} (deleted)")),
        };
        lines.push(EvaluatorCountLine {
            evaluator,
            n_scored: one.n_scored,
            n_missing: one.n_missing,
        });
    }
    Ok(lines)
}

fn run_scores(results: &RunResults) -> Vec<RunScoreLine> {
    let scores = results.scores.iter();
    scores
        .map(|score| RunScoreLine::new(&score.name, &score.value, score.comment.as_deref()))
        .collect()
}

/// A row of the table: a result, or an expected item without one.
#[derive(Clone, Copy, Debug)]
enum Row<'r> {
    Result(&'r ItemResult),
    Missing(&'r str),
}

impl Row<'_> {
    fn item(&self) -> &str {
        match self {
            Self::Result(result) => &result.item_id,
            Self::Missing(id) => id,
        }
    }
}

/// The rows of a selection. Worst first: missing items, errors, then the worst mean of numeric scores.
fn rows<'r>(
    results: &'r RunResults,
    show: &str,
    definitions: &BTreeMap<String, ScoreDefinition>,
) -> Vec<Row<'r>> {
    let seen: HashSet<&str> = results.items.iter().map(|item| item.item_id.as_str()).collect();
    let expected = results.expected_items.iter().flatten().map(String::as_str);
    let missing = expected.filter(|id| !seen.contains(id)).map(Row::Missing);
    let mut items: Vec<&ItemResult> = results.items.iter().collect();
    match show {
        "missing" => return missing.collect(),
        "errors" => items.retain(|item| item.is_error),
        "time" => {}
        _ => {
            // The sort is stable: equal items stay sorted by start.
            items.sort_by(|a, b| {
                let by_error = b.is_error.cmp(&a.is_error);
                let [a, b] = [a, b].map(|item| worth(item, definitions));
                by_error.then_with(|| a.total_cmp(&b))
            });
            return missing.chain(items.into_iter().map(Row::Result)).collect();
        }
    }
    items.into_iter().map(Row::Result).collect()
}

/// The mean of the numbers and truth values of a result, negative where lower is better; results without any come last.
fn worth(item: &ItemResult, definitions: &BTreeMap<String, ScoreDefinition>) -> f64 {
    let numbers = item.scores.iter().filter_map(|score| {
        let number = match score.value {
            ScoreValue::Numeric(number) => number,
            ScoreValue::Boolean(truth) => f64::from(u8::from(truth)),
            _ => return None,
        };
        let direction = definitions.get(&score.name).and_then(|known| known.direction);
        let is_lower = direction.is_some_and(|(one, _)| one == ScoreDirection::LowerIsBetter);
        Some(if is_lower { -number } else { number })
    });
    let numbers: Vec<f64> = numbers.collect();
    match numbers.len() {
        0 => f64::INFINITY,
        n => numbers.iter().sum::<f64>() / n as f64,
    }
}

async fn items(
    app: &App,
    viewer: &Viewer,
    results: &RunResults,
    rows: &[Row<'_>],
) -> Result<Vec<RunItem>, Problem> {
    let ids: Vec<&str> = rows.iter().map(Row::item).collect();
    let of_dataset = DatasetItems::read(app, &viewer.project, &[results], &ids).await?;
    let base = viewer.base();
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        let mut item = RunItem { id: Text::from(row.item()), ..RunItem::default() };
        let mut contents = match row {
            Row::Missing(_) => ResultContents::default(),
            Row::Result(result) => {
                let place = ResultPlace::from(*result);
                item.trace_href = result.has_arrived.then(|| place.href(&base));
                place.contents(app, &viewer.project).await?
            }
        };
        of_dataset.complete(row.item(), &mut contents);
        let text =
            |payload: Option<&Payload>| payload.map(|payload| Text::from(beginning(payload)));
        item.input = text(contents.input.as_ref());
        item.expected = text(contents.expected.as_ref());
        item.output = text(contents.output.as_ref());
        match row {
            Row::Missing(_) => item.is_missing = true,
            Row::Result(result) => {
                item.is_error = result.is_error;
                item.latency_ms = result.latency_ms;
                item.cost_usd = result.cost_usd;
                item.n_tokens = result.n_tokens;
                item.message = contents.message.filter(|_| result.is_error).map(Text::lines);
                let scores = result.scores.iter();
                item.scores = scores
                    .map(|one| RunScoreLine::new(&one.name, &one.value, one.comment.as_deref()))
                    .collect();
            }
        }
        items.push(item);
    }
    Ok(items)
}

/// Names and percent-encoded ids of other runs over the same dataset, those before this run first.
pub(super) async fn others(
    app: &App,
    viewer: &Viewer,
    results: &RunResults,
) -> Result<Vec<(Text, String)>, Problem> {
    let own = &results.run;
    let query = RunQuery { dataset_id: own.dataset_id.clone(), after: None, limit: MAX_OTHERS };
    let found = app.store.telemetry.experiment_runs(&viewer.project, &query).await?;
    let others = found.items.into_iter().map(|one| one.run);
    let mut others: Vec<_> =
        others.filter(|run| run.id != own.id && run.dataset_id == own.dataset_id).collect();
    let is_later = |at: Timestamp| own.created_at < at;
    let baseline = baseline_of_run(app, viewer, own).await?;
    others.sort_by_key(|run| (baseline.as_ref() != Some(&run.id), is_later(run.created_at)));
    let entries = others.into_iter().map(|run| (Text::from(run.name), encode(&run.id)));
    Ok(entries.collect())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RunNewsParams {
    n: String,
}

/// `GET P/_/experiments/{experiment}/news?n=`: the number of results in addition to the `n` of the page.
pub(crate) async fn news_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<RunPath>,
    Query(params): Query<RunNewsParams>,
) -> Result<Response, Problem> {
    let shown: u64 = params.n.parse().unwrap_or_default();
    let n_results = match app.store.ledger.run_progress(&viewer.project, path.id()).await? {
        // Totals count each attempt of a retried item.
        Some(run) => run.n_completed + run.n_failed,
        None => {
            let ids = [path.id()];
            let totals = app.store.telemetry.run_totals(&viewer.project, &ids).await?;
            totals.get(path.id()).ok_or_else(|| Problem::not_found("run"))?.n_items
        }
    };
    let view = NewsFragment {
        n: n_results.saturating_sub(shown),
        is_cut: false,
        nouns: ["new result", "new results"],
        is_filtered: false,
        is_sorted: false,
        list: run_href(&viewer.base(), path.id()),
    };
    news_response(&view, app.web.clock.now())
}
