//! Parameters and members shared by the lists of experiments and of their items.

use std::collections::HashMap;

use perpend_api_types::score::{ScoreGroups, ScoreV3};
use perpend_domain::ids::ProjectId;
use perpend_domain::score::Score;
use perpend_domain::telemetry::Period;
use perpend_http_kit::extract::{MISSING, Params, must_be_one_of};
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::ScoredSubject;
use serde_json::{Map, Value};

use crate::state::App;

/// The period of a request.
pub(super) fn period(params: &Params) -> Result<Period, Problem> {
    let from = params.time("fromStartTime")?;
    Ok(Period {
        from: Some(from.ok_or_else(|| Problem::query("fromStartTime", MISSING))?),
        to: params.time("toStartTime")?,
    })
}

/// Parses `fields`.
pub(super) fn groups(
    params: &Params,
    all: &[&str],
    default: &[&str],
) -> Result<Vec<String>, Problem> {
    let named = params.list("fields");
    if let Some(unknown) = named.iter().find(|name| !all.contains(&name.as_str())) {
        let message = must_be_one_of(all, unknown);
        return Err(Problem::query("fields", message));
    }
    match named.is_empty() {
        true => Ok(default.iter().map(|name| (*name).to_owned()).collect()),
        false => Ok(named),
    }
}

/// Metadata as an object or null, the types that clients accept.
pub(super) fn object(metadata: Option<&Value>) -> Option<Map<String, Value>> {
    match metadata {
        None | Some(Value::Null) => None,
        Some(Value::Object(members)) => Some(members.clone()),
        Some(other) => Some(Map::from_iter([("metadata".to_owned(), other.clone())])),
    }
}

/// The newest scores of each of these experiments.
pub(super) async fn scores_of_experiments(
    app: &App,
    project: &ProjectId,
    ids: &[&str],
    limit: u32,
) -> Result<HashMap<String, Vec<ScoreV3>>, Problem> {
    let places: Vec<ScoredSubject<'_>> =
        ids.iter().map(|id| ScoredSubject::Experiment(id)).collect();
    let found = app.store.telemetry.newest_scores(project, &places, limit).await?;
    let views = found.iter().map(|scores| score_views(project, scores));
    Ok(ids.iter().map(|id| (*id).to_owned()).zip(views).collect())
}

pub(super) fn score_views(project: &ProjectId, scores: &[Score]) -> Vec<ScoreV3> {
    scores.iter().map(|score| ScoreV3::new(project, score, ScoreGroups::ALL)).collect()
}
