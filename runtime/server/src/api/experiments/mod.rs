//! Experiments: passes over data, whether clients recorded them as spans, as links of a dataset run, or
//! as both.

pub(super) mod collect;
mod items;
mod list;

use assay_domain::ids::{ObservationId, ProjectId, TraceId};
use assay_domain::score::Score;
use assay_domain::time::Timestamp;
use assay_store::scores::ScoreQuery;
use serde_json::{Map, Value, json};

use super::routes::{Operation, Routes};
use super::scores::view::{Fields, v3};
use crate::App;
use crate::extract::Params;
use crate::problem::Problem;

pub(super) fn routes(routes: &mut Routes) {
    let all = Operation::get(
        "/api/public/experiments",
        "Experiments, latest activity first",
    );
    routes.add(all.query(list::LIST), list::list_experiments);
    let items = Operation::get(
        "/api/public/experiment-items",
        "Items of experiments, newest first",
    );
    routes.add(items.query(items::LIST), items::list_items);
}

/// The time that is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub(super) from: Option<Timestamp>,
    pub(super) to: Option<Timestamp>,
}

impl Range {
    fn read(params: &Params) -> Result<Self, Problem> {
        let from = params.time("fromStartTime")?;
        Ok(Self {
            from: Some(from.ok_or_else(|| Problem::query("fromStartTime", "needed"))?),
            to: params.time("toStartTime")?,
        })
    }
}

/// Groups of fields, each of which the endpoint has.
fn groups(params: &Params, all: &[&str], default: &[&str]) -> Result<Vec<String>, Problem> {
    let named = params.list("fields");
    if let Some(unknown) = named.iter().find(|name| !all.contains(&name.as_str())) {
        let message = format!("{unknown:?} is none of {}", all.join(", "));
        return Err(Problem::query("fields", message));
    }
    match named.is_empty() {
        true => Ok(default.iter().map(|name| (*name).to_owned()).collect()),
        false => Ok(named),
    }
}

/// Clients want an object or null.
fn object(metadata: Option<&Value>) -> Value {
    match metadata {
        None | Some(Value::Null) => Value::Null,
        Some(Value::Object(members)) => Value::Object(members.clone()),
        Some(other) => Value::Object(Map::from_iter([("metadata".to_owned(), other.clone())])),
    }
}

/// The newest scores of an experiment.
async fn scores_of_experiment(
    app: &App,
    project: &ProjectId,
    id: &str,
    limit: u32,
) -> Result<Value, Problem> {
    let query = ScoreQuery {
        experiment_ids: vec![id.to_owned()],
        ..ScoreQuery::default()
    };
    let found = app.store.scores(project, &query, None, limit).await?;
    Ok(shown(project, &found.items))
}

/// The newest scores about a trace as a whole or about its observation `root`.
async fn scores_of_item(
    app: &App,
    project: &ProjectId,
    trace_id: &TraceId,
    root: Option<&ObservationId>,
    limit: u32,
) -> Result<Value, Problem> {
    let query = ScoreQuery {
        trace_ids: vec![trace_id.clone()],
        ..ScoreQuery::default()
    };
    let found = app.store.scores(project, &query, None, 1_000).await?;
    let is_about = |score: &&Score| {
        let place = super::scores::view::place(&score.written.subject);
        place.is_some_and(|(_, observation)| observation.is_none() || observation == root)
    };
    let own: Vec<Score> = found
        .items
        .iter()
        .filter(is_about)
        .take(limit as usize)
        .cloned()
        .collect();
    Ok(shown(project, &own))
}

fn shown(project: &ProjectId, scores: &[Score]) -> Value {
    json!(
        scores
            .iter()
            .map(|score| v3(project, score, Fields::ALL))
            .collect::<Vec<_>>()
    )
}
