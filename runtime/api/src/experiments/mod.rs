//! Experiments: passes over data, whether clients recorded them as spans, as links of a dataset run, or
//! as both.

mod collect;
mod items;
mod list;

use std::collections::HashMap;

use perpend_contract::score::{Groups, ScoreV3};
use perpend_domain::access::Permission::ExperimentRead;
use perpend_domain::ids::ProjectId;
use perpend_domain::score::Score;
use perpend_domain::telemetry::Period;
use perpend_telemetry::scores::Place;
use perpend_web::extract::Params;
use perpend_web::problem::Problem;
use perpend_web::routes::Operation;
use serde_json::{Map, Value, json};

use crate::App;
use crate::Routes;

pub(super) fn routes(routes: &mut Routes) {
    let all = Operation::get(
        "listExperiments",
        "/api/public/experiments",
        "Experiments, latest activity first",
        ExperimentRead,
    );
    routes.add(all.query(list::LIST), list::list_experiments);
    let items = Operation::get(
        "listExperimentItems",
        "/api/public/experiment-items",
        "Items of experiments, newest first",
        ExperimentRead,
    );
    routes.add(items.query(items::LIST), items::list_items);
}

/// The time that is asked for.
fn period(params: &Params) -> Result<Period, Problem> {
    let from = params.time("fromStartTime")?;
    Ok(Period {
        from: Some(from.ok_or_else(|| Problem::query("fromStartTime", "needed"))?),
        to: params.time("toStartTime")?,
    })
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

/// The newest scores of each of these experiments, as they are shown.
async fn scores_of_experiments(
    app: &App,
    project: &ProjectId,
    ids: &[&str],
    limit: u32,
) -> Result<HashMap<String, Value>, Problem> {
    let places: Vec<Place<'_>> = ids.iter().map(|id| Place::Experiment(id)).collect();
    let found = app
        .store
        .telemetry
        .newest_scores(project, &places, limit)
        .await?;
    let shown = found.iter().map(|scores| shown(project, scores));
    Ok(ids.iter().map(|id| (*id).to_owned()).zip(shown).collect())
}

fn shown(project: &ProjectId, scores: &[Score]) -> Value {
    json!(
        scores
            .iter()
            .map(|score| json!(ScoreV3::new(project, score, Groups::ALL)))
            .collect::<Vec<_>>()
    )
}
