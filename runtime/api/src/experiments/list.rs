//! `GET /experiments`.

use std::borrow::Cow;
use std::collections::HashMap;

use axum::extract::State;
use perpend_api_types::any_json::AnyJson;
use perpend_api_types::list::CursorList;
use perpend_api_types::score::ScoreV3;
use perpend_domain::filter::{Cell, Column, ColumnKind, Filter, Row};
use perpend_domain::list::Cursor;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::problem::Problem;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::collect::{Experiment, active, experiments};
use super::params::{groups, object, period, scores_of_experiments};
use crate::state::App;

pub(super) const LIST: &[Param] = &[
    param("fromStartTime", "date-time", "Start of the items, inclusive.").required(),
    param("toStartTime", "date-time", "Start of the items, exclusive."),
    param(
        "fields",
        "string",
        "Comma-separated list of `core`, `metadata`, `scores`; `core` is always included.",
    ),
    param("limit", "integer", "Experiments per page, 1 to 100; 50 when absent."),
    param("scoreLimit", "integer", "Scores per experiment, 1 to 50; 50 when absent."),
    param("cursor", "string", "`meta.cursor` of the previous page."),
    param("id", "string", "Comma-separated list."),
    param("name", "string", "Comma-separated list."),
    param("datasetId", "string", "Comma-separated list."),
    param("filter", "string", "JSON array of conditions on `id`, `name` and `datasetId`."),
];

const COLUMNS: &[Column] = &[
    Column::new("id", ColumnKind::Options),
    Column::new("name", ColumnKind::Options),
    Column::new("datasetId", ColumnKind::Options),
];

impl Row for Experiment {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        match column {
            "id" => Cell::Text(Cow::Borrowed(&self.id)),
            "name" => Cell::Text(Cow::Borrowed(&self.name)),
            "datasetId" => Cell::text(self.dataset_id.as_deref()),
            _ => Cell::Null,
        }
    }
}

pub(super) async fn list_experiments(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CursorList<ExperimentView>>, Problem> {
    let period = period(&params)?;
    let fields = groups(&params, &["core", "metadata", "scores"], &["core"])?;
    let limit = params.int("limit", 1, 100, 50)? as usize;
    let score_limit = params.int("scoreLimit", 1, 50, 50)?;
    let filter = Filter::parse(&params.filter()?, COLUMNS).map_err(filter_problem)?;
    let after = cursor::position(&params)?;
    let lists = [params.list("id"), params.list("name"), params.list("datasetId")];
    let is_listed = |list: &[String], value: Option<&str>| {
        list.is_empty() || value.is_some_and(|value| list.iter().any(|member| member == value))
    };
    let is_selected = |experiment: &Experiment| {
        is_listed(&lists[0], Some(&experiment.id))
            && is_listed(&lists[1], Some(&experiment.name))
            && is_listed(&lists[2], experiment.dataset_id.as_deref())
            && filter.matches(experiment)
    };
    let mut heads = active(&app, &caller.project, period).await?;
    heads.retain(|(at, id)| {
        is_listed(&lists[0], Some(id))
            && after.as_ref().is_none_or(|cursor| (*at, id) < (cursor.at, &cursor.id))
    });
    // Reads only as many as the page and the filter require.
    let mut found: Vec<(Timestamp, Experiment)> = Vec::new();
    for some in heads.chunks(limit + 1) {
        let ids: Vec<&str> = some.iter().map(|(_, id)| id.as_str()).collect();
        for experiment in experiments(&app, &caller.project, &ids, period).await? {
            let head = some.iter().find(|(_, id)| *id == experiment.id);
            if let Some((at, _)) = head.filter(|_| is_selected(&experiment)) {
                found.push((*at, experiment));
            }
        }
        if limit < found.len() {
            break;
        }
    }
    let more = limit < found.len();
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|(at, last)| Cursor::new(*at, last.id.clone()));
    let found: Vec<Experiment> = found.into_iter().map(|(_, found)| found).collect();
    let mut scores = match fields.iter().any(|name| name == "scores") {
        true => {
            let ids: Vec<&str> = found.iter().map(|found| found.id.as_str()).collect();
            scores_of_experiments(&app, &caller.project, &ids, score_limit).await?
        }
        false => HashMap::new(),
    };
    let mut data = Vec::with_capacity(found.len());
    for experiment in &found {
        let mut view = core(experiment, period.from);
        if fields.iter().any(|name| name == "metadata") {
            view.metadata = Some(object(experiment.metadata.as_ref()));
        }
        if fields.iter().any(|name| name == "scores") {
            view.scores = Some(scores.remove(&experiment.id).unwrap_or_default());
        }
        data.push(view);
    }
    Ok(Answer(CursorList { data, meta: cursor::meta(next.as_ref()) }))
}

/// An experiment. Groups that were not requested are absent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Experiment)]
pub(super) struct ExperimentView {
    id: String,
    name: String,
    description: Option<String>,
    /// Start of the first item in the period.
    start_time: Timestamp,
    /// End of the last item in the period.
    end_time: Timestamp,
    /// Number of items in the period.
    item_count: u64,
    dataset_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    metadata: Option<Option<Map<String, Value>>>,
    /// The newest scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    scores: Option<Vec<ScoreV3>>,
}

/// An experiment without groups.
fn core(experiment: &Experiment, from: Option<Timestamp>) -> ExperimentView {
    ExperimentView {
        id: experiment.id.clone(),
        name: experiment.name.clone(),
        description: experiment.description.clone(),
        start_time: from.map_or(experiment.start, |from| from.max(experiment.start)),
        end_time: experiment.end,
        item_count: experiment.n_items,
        dataset_id: experiment.dataset_id.clone(),
        metadata: None,
        scores: None,
    }
}
