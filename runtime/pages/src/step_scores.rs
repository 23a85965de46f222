//! The scores of the steps of a trace, for the pane of the trace itself.

use std::collections::{BTreeSet, HashMap};

use perpend_domain::ids::TraceId;
use perpend_domain::score::{Score, Subject};
use perpend_outline::Outline;
use perpend_ui::{ScoreOfStep, ScoresOfSteps, Text, Verdict, anchor, with_query};
use perpend_web::problem::Problem;

use crate::state::App;
use crate::viewer::Viewer;

/// Scores that are shown; a link leads to the others.
const LIMIT: u32 = 50;

/// Says what the scores of rules are called, where some of them are on other steps of the trace and have another name than
/// the rule.
pub(super) async fn name(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    verdicts: &mut [Verdict],
) -> Result<(), Problem> {
    if verdicts.is_empty() {
        return Ok(());
    }
    let mut names: HashMap<String, BTreeSet<Text>> = HashMap::new();
    let telemetry = &app.store.telemetry;
    for score in telemetry
        .scores_of_steps(&viewer.project, trace, LIMIT)
        .await?
    {
        if let Some(origin) = score.written.origin {
            let of_rule = names.entry(origin.rule_id.to_string()).or_default();
            of_rule.insert(Text::from(score.written.name));
        }
    }
    for verdict in verdicts {
        let known = verdict.rule.id.as_ref().and_then(|id| names.get(id));
        let other = known
            .into_iter()
            .flatten()
            .filter(|name| **name != verdict.rule.name);
        verdict.makes = other.cloned().collect();
    }
    Ok(())
}

/// In the order of the steps; a link on each leads to its step.
pub(super) async fn of(
    app: &App,
    viewer: &Viewer,
    trace: &TraceId,
    outline: &Outline,
    address: impl Fn(&str) -> String,
) -> Result<ScoresOfSteps, Problem> {
    let telemetry = &app.store.telemetry;
    let mut found = telemetry
        .scores_of_steps(&viewer.project, trace, LIMIT + 1)
        .await?;
    let has_more = (LIMIT as usize) < found.len();
    found.truncate(LIMIT as usize);
    let placed = |score: &Score| match &score.written.subject {
        Subject::Observation(_, step) => {
            let at = outline.find(step.as_str())?;
            let name = outline.name(outline.rows().get(at)?);
            let href = format!(
                "{}{}",
                address(step.as_str()),
                anchor(score.written.id.as_str())
            );
            let written = &score.written;
            Some((
                at,
                ScoreOfStep::new(&written.name, &written.value, name, href),
            ))
        }
        _ => None,
    };
    let mut scores: Vec<(usize, ScoreOfStep)> = found.iter().filter_map(placed).collect();
    scores.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp_name(&b.1)));
    let path = format!("{}/scores", viewer.base());
    let all = [("trace", trace.to_string())];
    Ok(ScoresOfSteps {
        scores: scores.into_iter().map(|(_, score)| score).collect(),
        all: has_more.then(|| with_query(&path, &all)),
    })
}
