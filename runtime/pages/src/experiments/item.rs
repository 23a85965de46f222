//! `GET P/experiments/compare/items/{item}?runs=`: an item with the output of each compared run.

use std::collections::BTreeSet;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::experiment::ItemResult;
use perpend_domain::payload::Payload;
use perpend_experiments::comparison::ItemComparison;
use perpend_http_kit::problem::Problem;
use perpend_storage::ComparedRuns;
use perpend_views::{
    Addresses, Block, ComparedItemPage, ItemSide, RunsQuery, Section, Text, count, decode_segment,
    dollars, duration, encode, segment,
};
use serde::Deserialize;

use crate::experiments::compare::{
    base_first, cell, compared_output, compared_run, contents, output_view, selection_page,
};
use crate::experiments::comparison::{ComparisonParams, compared_runs, selected};
use crate::experiments::contents::{DatasetItems, ResultPlace};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Shown results of a run with repetitions.
const MAX_REPETITIONS: usize = 50;

#[derive(Debug, Deserialize)]
pub(crate) struct ItemPath {
    item: String,
}

/// `GET P/experiments/compare/items/{item}`
pub(crate) async fn item_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ItemPath>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let ComparisonParams { query, notices, .. } = ComparisonParams::new(raw.as_deref());
    let runs = match compared_runs(&app, &viewer, &query).await? {
        Ok(runs) => runs,
        Err(message) => return selection_page(&app, &viewer, &query, message).await,
    };
    let id = decode_segment(&path.item);
    let rows = selected(&app, &viewer, &runs, query.show).await?;
    let at = rows.iter().position(|item| item.item_id == id);
    let all = runs.comparison.items.iter();
    let item = at.and_then(|at| rows.get(at).copied());
    let item = item.or_else(|| all.clone().find(|item| item.item_id == id));
    let item = item.ok_or_else(|| Problem::not_found("item"))?;
    let base = viewer.base();
    let neighbor = |at: Option<usize>| {
        at.and_then(|at| rows.get(at)).map(|item| query.item_address(&base, &item.item_id))
    };
    let of_dataset = DatasetItems::read(&app, &viewer.project, &base_first(&runs), &[id]).await?;
    let all = contents(&app, &viewer, item, &of_dataset).await?;
    let first = all.iter().flatten().next();
    let sides = (0..item.runs.len()).map(|at| side(&runs, &query, (at, item, &all), &base));
    // The input of the item has no address of its own: its links lead to the first trace.
    let place = item.runs.iter().flatten().next();
    let block = |payload: Option<&Payload>, part: &str| {
        let at = place.map_or_else(Addresses::default, |run| {
            let observation = run.observation_id.as_ref().map(|id| id.as_str());
            Addresses::new(&base, run.trace_id.as_str(), observation, part)
        });
        Block::of(payload, &at)
    };
    let dataset = runs.dataset().filter(|_| of_dataset.has(id));
    let view = ComparedItemPage {
        shell: viewer.shell(Section::Experiments),
        notices,
        id: Text::from(id),
        comparison_href: query.address(&base),
        item_href: dataset
            .map(|dataset| format!("{base}/datasets/{}/items/{}", encode(dataset), segment(id))),
        diff_links: query.diff_links(|query| query.item_address(&base, id)),
        input: block(first.and_then(|one| one.input.as_ref()), "input"),
        expected: block(first.and_then(|one| one.expected.as_ref()), "output"),
        sides: sides.collect(),
        previous: neighbor(at.and_then(|at| at.checked_sub(1))),
        next: neighbor(at.map(|at| at + 1)),
        position: at.map_or_else(String::new, |at| {
            format!("{} of {}", count(at as u64 + 1), count(rows.len() as u64))
        }),
        warnings: warnings(item),
    };
    page(StatusCode::OK, &view)
}

fn warnings(item: &ItemComparison) -> Vec<Text> {
    let excluded =
        "The runs used different expected outputs, so this item is not part of the verdicts.";
    item.is_excluded.then(|| Text::from(excluded)).into_iter().collect()
}

/// The results of a run for an item.
fn results<'r>(
    runs: &'r ComparedRuns,
    at: usize,
    item: &str,
) -> impl Iterator<Item = &'r ItemResult> {
    let items = runs.results.get(at).into_iter().flat_map(|run| &run.items);
    items.filter(move |result| result.item_id == item)
}

type Contents = Option<super::contents::ResultContents>;

fn side(
    runs: &ComparedRuns,
    query: &RunsQuery,
    (at, item, all): (usize, &ItemComparison, &[Contents]),
    base: &str,
) -> ItemSide {
    let own = all.get(at).and_then(Option::as_ref);
    let of_base = all.get(runs.base()).and_then(Option::as_ref);
    let output = own.and_then(|own| own.output.as_ref());
    let to = compared_output(query.diff, (at, runs.base()), (own, of_base));
    let mut cell = cell(runs, at, item, base);
    let shown: Vec<&ItemResult> = results(runs, at, &item.item_id).take(MAX_REPETITIONS).collect();
    let first = shown.first();
    cell.message =
        own.filter(|_| cell.is_error).and_then(|own| own.message.as_deref().map(Text::lines));
    cell.output = output_view(output, to);
    let addresses = first.map_or_else(Addresses::default, |result| {
        let observation = result.observation_id.as_ref().map(|id| id.as_str());
        Addresses::new(base, result.trace_id.as_str(), observation, "output")
    });
    // Repetitions often have the same comment.
    let comments: BTreeSet<(&str, &str)> = shown
        .iter()
        .flat_map(|result| &result.scores)
        .filter_map(|score| Some((score.name.as_str(), score.comment.as_deref()?)))
        .collect();
    let comments = comments.into_iter();
    let comments = comments.map(|(name, comment)| (Text::from(name), Text::lines(comment)));
    let latency = first.and_then(|result| result.latency_ms);
    let cost = first.and_then(|result| result.cost_usd);
    ItemSide {
        run: compared_run(&runs.comparison.runs[at], query, base),
        output: output.map(|output| Block::of(Some(output), &addresses)),
        cell,
        comments: comments.collect(),
        latency: latency.map_or_else(|| "–".to_owned(), |ms| duration((ms * 1e3).round() as i64)),
        cost: cost.map_or_else(|| "–".to_owned(), dollars),
        repetitions: shown.iter().map(|result| repetition(result, base)).collect(),
    }
}

/// The trace and the numeric scores of a result.
fn repetition(result: &ItemResult, base: &str) -> (String, Text) {
    let scores = result.scores.iter().map(|score| {
        let value = perpend_views::aggregate(&[&score.value]);
        format!("{} {}", score.name, value.map(|value| value.raw().to_owned()).unwrap_or_default())
    });
    let scores: Vec<String> = scores.collect();
    (ResultPlace::from(result).href(base), Text::from(scores.join(", ")))
}
