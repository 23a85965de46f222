//! What lists of experiments and of their items have in common.

use std::collections::HashMap;

use perpend_api_types::score::{ScoreGroups, ScoreV3};
use perpend_domain::ids::ProjectId;
use perpend_domain::score::Score;
use perpend_domain::telemetry::Period;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::Place;
use serde_json::{Map, Value, json};

use crate::state::App;

/// The time that is asked for.
pub(super) fn period(params: &Params) -> Result<Period, Problem> {
    let from = params.time("fromStartTime")?;
    Ok(Period {
        from: Some(from.ok_or_else(|| Problem::query("fromStartTime", "needed"))?),
        to: params.time("toStartTime")?,
    })
}

/// Groups of fields, each of which the endpoint has.
pub(super) fn groups(
    params: &Params,
    all: &[&str],
    default: &[&str],
) -> Result<Vec<String>, Problem> {
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
pub(super) fn object(metadata: Option<&Value>) -> Value {
    match metadata {
        None | Some(Value::Null) => Value::Null,
        Some(Value::Object(members)) => Value::Object(members.clone()),
        Some(other) => Value::Object(Map::from_iter([("metadata".to_owned(), other.clone())])),
    }
}

/// The newest scores of each of these experiments, as they are shown.
pub(super) async fn scores_of_experiments(
    app: &App,
    project: &ProjectId,
    ids: &[&str],
    limit: u32,
) -> Result<HashMap<String, Value>, Problem> {
    let places: Vec<Place<'_>> = ids.iter().map(|id| Place::Experiment(id)).collect();
    let found = app.store.telemetry.newest_scores(project, &places, limit).await?;
    let shown = found.iter().map(|scores| score_views(project, scores));
    Ok(ids.iter().map(|id| (*id).to_owned()).zip(shown).collect())
}

pub(super) fn score_views(project: &ProjectId, scores: &[Score]) -> Value {
    json!(
        scores
            .iter()
            .map(|score| json!(ScoreV3::new(project, score, ScoreGroups::ALL)))
            .collect::<Vec<_>>()
    )
}
