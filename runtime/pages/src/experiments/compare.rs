//! `GET P/experiments/compare?runs=&base=`: 2 to 6 runs, with a verdict for each metric and the items by change.

use std::collections::BTreeSet;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::future::try_join_all;
use perpend_domain::access::Permission::ScoreConfigWrite;
use perpend_domain::experiment::{RunQuery, RunResults};
use perpend_domain::payload::Payload;
use perpend_domain::score::{ScoreDataType, ScoreValue};
use perpend_domain::score_config::ScoreDirection;
use perpend_experiments::ItemSelection;
use perpend_experiments::comparison::{
    ComparedRun as RunOfComparison, ItemComparison, ItemRun, MetricComparison, MetricKind,
};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading::apart;
use perpend_storage::ComparedRuns;
use perpend_views::{
    ApiRequest, ComparedItem, ComparedRun, DeltaChart, Diff, DiffChoice, DirectionForm, ItemCell,
    ItemScoreChip, OutputDiff, OutputView, RunComparisonPage, RunScoreLine, RunSelectionPage,
    RunsQuery, Section, Text, beginning, count, encode, plural, run_href,
};
use serde_json::{Map, Value};

use crate::experiments::comparison::{
    ComparisonParams, compared_runs, metadata_keys, put_baseline_first, selected,
};
use crate::experiments::contents::{DatasetItems, ResultContents, ResultPlace};
use crate::experiments::markdown::comparison_markdown;
use crate::experiments::{gate, verdicts};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Items per page.
const PAGE: usize = 25;
/// Bytes of the shown difference of an output.
const DIFF_BYTES: usize = 2 << 10;
/// Shown metadata keys that differ, and characters of a value.
const MAX_DIFFERENCES: usize = 50;
const MAX_VALUE_CHARS: usize = 300;
/// Charts of differences.
const MAX_CHARTS: usize = 6;
/// Adjustments of p-values.
const CORRECTIONS: [(&str, &str); 3] =
    [("holm", "Holm"), ("bh", "Benjamini–Hochberg"), ("bonferroni", "Bonferroni")];
/// Selections of items with their labels.
const SELECTIONS: [(ItemSelection, &str); 7] = [
    (ItemSelection::All, "All"),
    (ItemSelection::Regressed, "Regressed"),
    (ItemSelection::Improved, "Improved"),
    (ItemSelection::Changed, "Changed"),
    (ItemSelection::Errors, "Errors"),
    (ItemSelection::Missing, "Missing"),
    (ItemSelection::Disagree, "Disagree"),
];
/// Reductions of the repetitions of an item.
const REDUCERS: [(&str, &str); 6] = [
    ("mean", "mean"),
    ("median", "median"),
    ("mode", "most frequent"),
    ("max", "largest"),
    ("at_least:1", "any passes"),
    ("pass_at:1", "pass@1"),
];
/// Runs offered for selection.
const MAX_OFFERED: u32 = 50;

/// `GET P/experiments/compare`
pub(crate) async fn compare_page(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let ComparisonParams { mut query, is_of_form, has_baseline, notices } =
        ComparisonParams::new(raw.as_deref());
    if is_of_form {
        if !has_baseline {
            put_baseline_first(&app, &viewer, &mut query.runs).await?;
        }
        return Ok(Redirect::to(&query.address(&viewer.base())).into_response());
    }
    match compared_runs(&app, &viewer, &query).await? {
        Ok(runs) => comparison(&app, &viewer, (&query, notices), &runs).await,
        Err(message) => selection_page(&app, &viewer, &query, message).await,
    }
}

/// The page that selects runs, with the reason why the requested ones cannot be compared.
pub(super) async fn selection_page(
    app: &App,
    viewer: &Viewer,
    query: &RunsQuery,
    message: Text,
) -> Result<Response, Problem> {
    let newest = RunQuery { limit: MAX_OFFERED, ..RunQuery::default() };
    let found = app.store.telemetry.experiment_runs(&viewer.project, &newest).await?;
    let runs = found.items.into_iter().map(|one| {
        let is_selected = query.runs.contains(&one.run.id);
        (Text::from(one.run.name), encode(&one.run.id), is_selected)
    });
    let view = RunSelectionPage {
        shell: viewer.shell(Section::Experiments),
        message,
        runs: runs.collect(),
    };
    page(StatusCode::OK, &view)
}

async fn comparison(
    app: &App,
    viewer: &Viewer,
    (query, notices): (&RunsQuery, Vec<Text>),
    runs: &ComparedRuns,
) -> Result<Response, Problem> {
    let base = viewer.base();
    let rows = selected(app, viewer, runs, query.show).await?;
    let at = super::page_start(&query.at.to_string(), rows.len(), PAGE);
    let shown: Vec<&ItemComparison> = rows.iter().skip(at).take(PAGE).copied().collect();
    let items = items(app, viewer, query, (runs, &shown)).await?;
    let keys = metadata_keys(app, viewer, runs).await?;
    let compared = &runs.comparison;
    let ids = query.runs.iter();
    let api = ApiRequest::new(&viewer.origin, "/api/v1/experiments/compare");
    let api = ids.fold(api, |api, id| api.with("runs", id)).with("base", &compared.base);
    let view = RunComparisonPage {
        shell: viewer.shell(Section::Experiments).with_api([api]),
        notices,
        runs: compared.runs.iter().map(|run| compared_run(run, query, &base)).collect(),
        differences: differences(&runs.results),
        warnings: compared.warnings.iter().map(|one| Text::from(one.message.as_str())).collect(),
        level: perpend_views::percent(1.0 - compared.alpha),
        metrics: verdicts::metrics(compared),
        charts: charts(runs),
        undirected: undirected(runs),
        may_set_direction: viewer.may(ScoreConfigWrite),
        method_fields: query.fields_without(&["correction", "reducer"]),
        corrections: choices(&CORRECTIONS, query.correction.as_deref()),
        reducers: match compared.runs.iter().any(|run| run.n_items < run.n_results) {
            true => choices(&REDUCERS, query.reducer.as_deref()),
            false => Vec::new(),
        },
        segment_links: segment_links(query, &keys, &base),
        segments: verdicts::segments(compared),
        selections: selections(runs, query, &base),
        diff_links: query.diff_links(|query| query.address(&base)),
        items,
        position: super::position(at, shown.len(), rows.len()),
        order: match query.show {
            ItemSelection::Improved => "largest improvement first",
            _ => "largest regression first",
        },
        page_links: super::page_links(at, (shown.len(), rows.len()), PAGE, |at| {
            query.with(|query| query.at = at).address(&base)
        }),
        markdown: Text::lines(comparison_markdown(compared, &gate::links(viewer))),
        command: command(runs),
    };
    page(StatusCode::OK, &view)
}

/// The options of a selection; the first one is the default.
fn choices(
    all: &[(&'static str, &'static str)],
    selected: Option<&str>,
) -> Vec<(&'static str, &'static str, bool)> {
    let default = all.first().map(|(value, _)| *value);
    let selected = selected.or(default);
    all.iter().map(|(value, label)| (*value, *label, Some(*value) == selected)).collect()
}

/// The command that prints the comparison.
fn command(runs: &ComparedRuns) -> String {
    let others = runs.comparison.runs.iter().filter(|run| !run.is_base);
    let ids: Vec<&str> = others.map(|run| run.id.as_str()).collect();
    format!("perpend experiment compare {} {}", runs.comparison.base, ids.join(" "))
}

/// A run as a heading of the comparison.
pub(super) fn compared_run(run: &RunOfComparison, query: &RunsQuery, base: &str) -> ComparedRun {
    let failed = (0 < run.n_failed_items).then(|| format!("{} failed", count(run.n_failed_items)));
    let missing = run.n_missing_items.filter(|n| 0 < *n);
    let missing = missing.map(|n| format!("{} missing", count(n)));
    let matched = (!run.is_base).then(|| format!("{} matched", count(run.n_matched_items)));
    let parts = [Some(plural(run.n_items, "item")), failed, missing, matched];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let without = || {
        query.with(|query| {
            query.runs.retain(|id| *id != run.id);
            query.base = query.base.take().filter(|id| *id != run.id);
            query.at = 0;
        })
    };
    ComparedRun {
        name: Text::from(run.name.as_str()),
        id: Text::from(run.id.as_str()),
        href: run_href(base, &run.id),
        is_base: run.is_base,
        base_href: query
            .with(|query| (query.base, query.at) = (Some(run.id.clone()), 0))
            .address(base),
        without_href: (2 < query.runs.len()).then(|| without().address(base)),
        items: parts.join(", "),
    }
}

/// Metadata keys whose values differ between the runs, with the value of each run.
fn differences(results: &[RunResults]) -> Vec<(Text, Vec<Text>)> {
    let members = || results.iter().map(|run| run.run.metadata.as_object());
    let keys: BTreeSet<&String> = members().flatten().flat_map(Map::keys).collect();
    let rows = keys.into_iter().filter_map(|key| {
        let values = members().map(|members| members.and_then(|members| members.get(key)));
        let values: Vec<Option<&Value>> = values.collect();
        let differs = values.iter().any(|value| *value != values[0]);
        let texts = values.into_iter().map(|value| {
            let text = match value {
                None => "–".to_owned(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            Text::from(text.chars().take(MAX_VALUE_CHARS).collect::<String>())
        });
        differs.then(|| (Text::from(key.as_str()), texts.collect()))
    });
    rows.take(MAX_DIFFERENCES).collect()
}

/// The differences of the items for each score and run, most important metrics first.
fn charts(runs: &ComparedRuns) -> Vec<DeltaChart> {
    let (compared, base) = (&runs.comparison, runs.base());
    let mut charts = Vec::new();
    let metrics = compared.metrics.iter().enumerate();
    for (place, metric) in metrics.filter(|(_, metric)| metric.kind == MetricKind::Score) {
        for (at, run) in compared.runs.iter().enumerate().filter(|(at, _)| *at != base) {
            let items = compared.items.iter().filter(|item| !item.is_excluded);
            let differences = items.filter_map(|item| {
                let value = |run: usize| *item.runs.get(run)?.as_ref()?.values.get(place)?;
                Some(value(at)? - value(base)?)
            });
            let higher_is_better =
                metric.direction.map(|direction| direction == ScoreDirection::HigherIsBetter);
            let kind = (verdicts::unit(metric), higher_is_better);
            let names = (metric.name.as_str(), run.name.as_str());
            charts.extend(DeltaChart::new(names, differences.collect(), kind));
        }
    }
    charts.truncate(MAX_CHARTS);
    charts
}

/// Scores without a direction.
fn undirected(runs: &ComparedRuns) -> Vec<DirectionForm> {
    let metrics = runs.comparison.metrics.iter();
    let unknown = metrics.filter(|metric| {
        metric.kind == MetricKind::Score && metric.direction.is_none() && metric.obstacle.is_none()
    });
    unknown
        .map(|metric| DirectionForm {
            name: Text::from(metric.score().unwrap_or(&metric.name)),
            encoded: encode(metric.score().unwrap_or(&metric.name)),
            // The categories are in a score config already.
            data_type: match metric.data_type {
                Some(own @ (ScoreDataType::Numeric | ScoreDataType::Boolean)) => own.as_str(),
                _ => "",
            },
        })
        .collect()
}

fn segment_links(query: &RunsQuery, keys: &[String], base: &str) -> Vec<(Text, String, bool)> {
    if keys.is_empty() && query.segment.is_none() {
        return Vec::new();
    }
    let none = query.with(|query| query.segment = None).address(base);
    let none = (Text::from("none"), none, query.segment.is_none());
    // A key of the URL is shown even if the first items do not have it.
    let own = query.segment.iter().filter(|key| !keys.contains(key));
    let links = keys.iter().chain(own).map(|key| {
        let href = query.with(|query| query.segment = Some(key.clone())).address(base);
        (Text::from(key.as_str()), href, query.segment.as_ref() == Some(key))
    });
    std::iter::once(none).chain(links).collect()
}

fn selections(
    runs: &ComparedRuns,
    query: &RunsQuery,
    base: &str,
) -> Vec<(&'static str, String, String, bool)> {
    let links = SELECTIONS.iter().map(|(show, label)| {
        // Outputs are read for their selection only.
        let n = runs.known_items(*show).map(|items| count(items.len() as u64));
        let href = query.with(|query| (query.show, query.at) = (*show, 0)).address(base);
        (*label, href, n.unwrap_or_default(), *show == query.show)
    });
    links.collect()
}

async fn items(
    app: &App,
    viewer: &Viewer,
    query: &RunsQuery,
    (runs, shown): (&ComparedRuns, &[&ItemComparison]),
) -> Result<Vec<ComparedItem>, Problem> {
    let ids: Vec<&str> = shown.iter().map(|item| item.item_id.as_str()).collect();
    let of_dataset = DatasetItems::read(app, &viewer.project, &base_first(runs), &ids).await?;
    let base = viewer.base();
    let text = |payload: Option<&Payload>| payload.map(|payload| Text::from(beginning(payload)));
    let mut items = Vec::with_capacity(shown.len());
    let reads = shown.iter().map(|item| apart(contents(app, viewer, item, &of_dataset)));
    for (item, contents) in shown.iter().zip(try_join_all(reads).await?) {
        let first = contents.iter().flatten().next();
        let of_base = contents.get(runs.base()).and_then(Option::as_ref);
        let cells = item.runs.iter().zip(&contents).enumerate().map(|(at, (run, own))| {
            let to = compared_output(query.diff, (at, runs.base()), (own.as_ref(), of_base));
            let mut cell = cell(runs, at, item, &base);
            cell.message = own
                .as_ref()
                .filter(|_| run.as_ref().is_some_and(|run| 0 < run.n_errors))
                .and_then(|own| own.message.as_deref().map(Text::lines));
            cell.output = output_view(own.as_ref().and_then(|own| own.output.as_ref()), to);
            cell
        });
        items.push(ComparedItem {
            id: Text::from(item.item_id.as_str()),
            href: query.item_address(&base, &item.item_id),
            tags: tags(item),
            is_regressed: item.is_regressed,
            is_improved: item.is_improved,
            input: text(first.and_then(|one| one.input.as_ref())),
            expected: text(first.and_then(|one| one.expected.as_ref())),
            cells: cells.collect(),
        });
    }
    Ok(items)
}

/// The results of the runs, those of the baseline first.
pub(super) fn base_first(runs: &ComparedRuns) -> Vec<&RunResults> {
    let base = runs.results.get(runs.base());
    base.into_iter().chain(&runs.results).collect()
}

/// The values of the first result of each run for an item; absent without a result.
pub(super) async fn contents(
    app: &App,
    viewer: &Viewer,
    item: &ItemComparison,
    of_dataset: &DatasetItems,
) -> Result<Vec<Option<ResultContents>>, Problem> {
    let mut all = Vec::with_capacity(item.runs.len());
    for run in &item.runs {
        let Some(run) = run else {
            all.push(None);
            continue;
        };
        let mut own = place(run).contents(app, &viewer.project).await?;
        of_dataset.complete(&item.item_id, &mut own);
        all.push(Some(own));
    }
    Ok(all)
}

fn place(run: &ItemRun) -> ResultPlace<'_> {
    ResultPlace { trace: &run.trace_id, observation: run.observation_id.as_ref() }
}

/// The output that the one of a run is compared with; absent if it is shown as it is.
pub(super) fn compared_output<'p>(
    diff: OutputDiff,
    (at, base): (usize, usize),
    (own, of_base): (Option<&'p ResultContents>, Option<&'p ResultContents>),
) -> Option<&'p Payload> {
    match diff {
        OutputDiff::Off => None,
        OutputDiff::Expected => own?.expected.as_ref(),
        OutputDiff::Base if at == base => None,
        OutputDiff::Base => of_base?.output.as_ref(),
    }
}

/// An output, or its difference to another one.
pub(super) fn output_view(own: Option<&Payload>, to: Option<&Payload>) -> OutputView {
    let Some(own) = own else {
        return OutputView::Absent;
    };
    let Some(to) = to else {
        return OutputView::Whole(Text::from(beginning(own)));
    };
    let choice = DiffChoice { is_inline: true, ignores_space: false };
    let diff = Diff::new(Some(to), Some(own), choice, DIFF_BYTES);
    match diff.is_same() {
        true => OutputView::Equal(Text::from(beginning(own))),
        false => OutputView::Changed(Box::new(diff)),
    }
}

/// Scores and state of a run for an item, without the output.
pub(super) fn cell(runs: &ComparedRuns, at: usize, item: &ItemComparison, base: &str) -> ItemCell {
    let name = runs.comparison.runs.get(at).map_or("", |run| run.name.as_str());
    let name = Text::from(name);
    let Some(run) = item.runs.get(at).and_then(Option::as_ref) else {
        return ItemCell { run: name, ..ItemCell::default() };
    };
    let of_base = item.runs.get(runs.base()).and_then(Option::as_ref);
    let metrics = runs.comparison.metrics.iter().enumerate();
    let scores = metrics.filter(|(_, metric)| metric.kind == MetricKind::Score);
    let chips = scores.filter_map(|(place, metric)| chip(metric, place, run, of_base));
    ItemCell {
        run: name,
        trace_href: Some(place(run).href(base)),
        output: OutputView::Absent,
        is_error: 0 < run.n_errors,
        message: None,
        scores: chips.collect(),
        n_results: (1 < run.n_results).then_some(run.n_results),
    }
}

/// The value of a score with its difference to the baseline.
fn chip(
    metric: &MetricComparison,
    place: usize,
    run: &ItemRun,
    base: Option<&ItemRun>,
) -> Option<ItemScoreChip> {
    let value_of = |run: &ItemRun| run.values.get(place).copied().flatten();
    let label_of = |run: &ItemRun| run.labels.get(place).cloned().flatten();
    let own = value_of(run);
    let value = match (label_of(run), own) {
        (Some(label), _) => ScoreValue::Categorical(label),
        (None, Some(number)) => score_value(metric, number),
        (None, None) => return None,
    };
    let difference = own.zip(base.and_then(value_of)).map(|(own, base)| own - base);
    let difference = difference.filter(|difference| *difference != 0.0);
    let floor = metric.noise.as_ref().map_or(0.0, |noise| noise.floor);
    let is_better = match (metric.direction, difference) {
        (Some(direction), Some(difference)) if floor < difference.abs() => {
            Some((direction == ScoreDirection::HigherIsBetter) == (0.0 < difference))
        }
        _ => None,
    };
    Some(ItemScoreChip {
        score: RunScoreLine::new(&metric.name, &value, None),
        difference: difference.map(|difference| verdicts::unit(metric).signed(difference)),
        is_better,
    })
}

/// Truth values are shown as such unless they are the mean of several results.
fn score_value(metric: &MetricComparison, number: f64) -> ScoreValue {
    match metric.data_type {
        Some(ScoreDataType::Boolean) if number == 1.0 => ScoreValue::Boolean(true),
        Some(ScoreDataType::Boolean) if number == 0.0 => ScoreValue::Boolean(false),
        _ => ScoreValue::Numeric(number),
    }
}

fn tags(item: &ItemComparison) -> Vec<(&'static str, &'static str)> {
    let all = [
        (item.is_regressed, "regressed", "bad"),
        (item.is_improved, "improved", "good"),
        (item.has_error, "error", "bad"),
        (item.is_missing, "missing", "waiting"),
        (item.is_excluded, "expected output differs", "waiting"),
    ];
    let own = all.into_iter().filter(|(has, ..)| *has);
    own.map(|(_, word, class)| (word, class)).collect()
}
