//! Scores of the observations of a trace, for the details of the trace.

use std::collections::{BTreeSet, HashMap};

use perpend_domain::ids::TraceId;
use perpend_domain::score::{Score, Subject};
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ObservationScore, ObservationScores, RuleOutcome, ScoreChip, Text, anchor, score_chips,
    with_query,
};

use crate::read;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Scores shown; a link leads to the others.
const LIMIT: u32 = 50;

/// Adds the names of scores that each rule created for observations of the trace, if they differ from the rule's name.
pub(crate) async fn add_names(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    outcomes: &mut [RuleOutcome],
) -> Result<(), Problem> {
    if outcomes.is_empty() {
        return Ok(());
    }
    let mut names: HashMap<String, BTreeSet<Text>> = HashMap::new();
    let telemetry = &app.store.telemetry;
    for score in telemetry.scores_of_observations(&viewer.project, trace, LIMIT).await? {
        if let Some(origin) = score.written.origin {
            let of_rule = names.entry(origin.rule_id.to_string()).or_default();
            of_rule.insert(Text::from(score.written.name));
        }
    }
    for outcome in outcomes {
        let names = outcome.rule.id.as_ref().and_then(|id| names.get(id));
        let other = names.into_iter().flatten().filter(|name| **name != outcome.rule.name);
        outcome.score_names = other.cloned().collect();
    }
    Ok(())
}

/// Scores read for the rows of a trace; if there are more, the rows show only their number.
const MAX_IN_ROWS: u32 = 200;

/// Score chips by observation id, one for each name; empty if there are too many scores.
pub(crate) async fn chips_by_observation(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
) -> Result<HashMap<String, Vec<ScoreChip>>, Problem> {
    let telemetry = &app.store.telemetry;
    let found = telemetry.scores_of_observations(&viewer.project, trace, MAX_IN_ROWS + 1);
    let found = found.await?;
    let mut by_observation: HashMap<String, Vec<&Score>> = HashMap::new();
    if (MAX_IN_ROWS as usize) < found.len() {
        return Ok(HashMap::new());
    }
    for score in &found {
        if let Subject::Observation(_, observation) = &score.written.subject {
            by_observation.entry(observation.to_string()).or_default().push(score);
        }
    }
    let made = by_observation.into_iter();
    Ok(made.map(|(observation, scores)| (observation, score_chips(&scores))).collect())
}

/// Scores with links, in the order of the observations. Scores of observations that have not arrived come last.
pub(crate) async fn observation_scores(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    address: impl Fn(&str) -> String,
) -> Result<ObservationScores, Problem> {
    let telemetry = &app.store.telemetry;
    let mut found = telemetry.scores_of_observations(&viewer.project, trace, LIMIT + 1).await?;
    let has_more = (LIMIT as usize) < found.len();
    found.truncate(LIMIT as usize);
    if found.is_empty() {
        return Ok(ObservationScores::default());
    }
    let outline = read::trace_outline(app, &viewer.project, trace).await?;
    let (_, outline) = outline.ok_or_else(|| Problem::not_found("trace"))?;
    let path = format!("{}/scores", viewer.base());
    let all = with_query(&path, &[("trace", trace.to_string())]);
    let placed = |score: &Score| {
        let written = &score.written;
        let Subject::Observation(_, observation) = &written.subject else {
            return None;
        };
        let line = |name, href| ObservationScore::new(&written.name, &written.value, name, href);
        let at = outline.find(observation.as_str());
        Some(match at.and_then(|at| Some((at, outline.rows().get(at)?))) {
            Some((at, row)) => {
                let href =
                    format!("{}{}", address(observation.as_str()), anchor(written.id.as_str()));
                (at, line(outline.name(row), href))
            }
            None => (usize::MAX, line(observation.as_str(), all.clone())),
        })
    };
    let mut scores: Vec<(usize, ObservationScore)> = found.iter().filter_map(placed).collect();
    scores.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp_name(&b.1)));
    Ok(ObservationScores {
        scores: scores.into_iter().map(|(_, score)| score).collect(),
        all: has_more.then_some(all),
    })
}
