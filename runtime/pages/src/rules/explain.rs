//! The decision of a rule about a target that is entered by its id.

use percent_encoding::percent_decode_str;
use perpend_domain::evaluation::{Rule, Target, TargetKind};
use perpend_domain::filter::describe_condition;
use perpend_domain::ids::{ObservationId, SessionId, TraceId};
use perpend_domain::telemetry::GroupKey;
use perpend_http_kit::problem::Problem;
use perpend_scheduler::{ExplanationStep, Refusal};
use perpend_views::{RuleExplanation, Text, encode, execution_href, href, run_href, segment};

use crate::request::viewer::Viewer;
use crate::state::App;

/// The ids that a rule explains.
pub(super) const fn id_label(rule: &Rule) -> &'static str {
    match rule.target {
        TargetKind::Observation | TargetKind::Experiment => "Id or URL of an observation",
        TargetKind::Trace => "Id or URL of a trace or of one of its observations",
        TargetKind::Session => "Id of a session",
        TargetKind::Run => "Id of a run",
    }
}

/// Trace and observation in the URL of a page.
fn ids_of_url(raw: &str) -> Option<(String, Option<String>)> {
    let decoded = |raw: &str| percent_decode_str(raw).decode_utf8_lossy().into_owned();
    let (_, rest) = raw.split_once("/traces/")?;
    let trace = rest.split(['?', '#', '/']).next().unwrap_or_default();
    let observation = rest.split_once("observation=").map(|(_, rest)| {
        let id = rest.split(['&', '#']).next().unwrap_or_default();
        decoded(id)
    });
    Some((decoded(trace), observation))
}

/// The target with this id or URL, or the reason why it was not found.
pub(crate) async fn target(
    app: &App,
    viewer: &Viewer,
    kind: TargetKind,
    raw: &str,
) -> Result<Result<Target, Text>, Problem> {
    let invalid = |message: &str| Ok(Err(Text::from(message)));
    let of_url = ids_of_url(raw);
    match kind {
        TargetKind::Session => Ok(match SessionId::new(raw) {
            Ok(session) => Ok(Target::Session(session)),
            Err(error) => Err(Text::from(error.to_string())),
        }),
        TargetKind::Run => Ok(Ok(Target::Run(raw.to_owned()))),
        TargetKind::Trace => {
            let id = of_url.map_or_else(|| raw.to_owned(), |(trace, _)| trace);
            let trace = match TraceId::new(&id) {
                Ok(trace) => trace,
                Err(error) => return Ok(Err(Text::from(error.to_string()))),
            };
            let (telemetry, project) = (&app.store.telemetry, &viewer.project);
            if telemetry.trace(project, &trace, false).await?.is_none()
                && let Ok(observation) = ObservationId::new(&id)
            {
                let found = telemetry.observations_by_id(project, &observation, None, 1).await?;
                let of_trace = found.found.into_iter().next().map(|(trace, _)| trace);
                return Ok(Ok(Target::Trace(of_trace.unwrap_or(trace))));
            }
            Ok(Ok(Target::Trace(trace)))
        }
        TargetKind::Observation | TargetKind::Experiment => {
            if let Some((trace, Some(observation))) = &of_url
                && let (Ok(trace), Ok(observation)) =
                    (TraceId::new(trace), ObservationId::new(observation))
            {
                return Ok(Ok(Target::Observation(trace, observation)));
            }
            let Ok(observation) = ObservationId::new(raw) else {
                return invalid("This is not the id of an observation.");
            };
            let telemetry = &app.store.telemetry;
            let found = telemetry.observations_by_id(&viewer.project, &observation, None, 1);
            match found.await?.found.into_iter().next() {
                Some((trace, _)) => Ok(Ok(Target::Observation(trace, observation))),
                None => invalid(
                    "No observation has this id. Enter the id of an observation, or the URL of a trace on which one is \
                     selected.",
                ),
            }
        }
    }
}

fn facts(step: &ExplanationStep) -> Vec<(&'static str, Text)> {
    match step {
        ExplanationStep::NotComplete { complete_at: Some(at) } => {
            vec![("Complete at", Text::from(at.to_string()))]
        }
        ExplanationStep::WaitingForFiring { firing_at } => {
            vec![("Firing at", Text::from(firing_at.to_string()))]
        }
        ExplanationStep::OlderThanRule { arrived_at, rule_created_at, .. } => vec![
            ("Arrived", Text::from(arrived_at.to_string())),
            ("Rule created", Text::from(rule_created_at.to_string())),
        ],
        ExplanationStep::Refused(Refusal::NotMatched { condition, actual, .. }) => vec![
            ("Condition", Text::from(describe_condition(condition))),
            ("Found", Text::from(actual.to_string())),
        ],
        ExplanationStep::Refused(Refusal::SampledOut { value: sample, rate })
        | ExplanationStep::Taken { sample, rate, .. } => vec![
            ("Sampling number", Text::from(format!("{sample:.6}"))),
            ("Sample rate", Text::from(rate.to_string())),
        ],
        _ => Vec::new(),
    }
}

/// Kind, id and URL of a target.
pub(crate) fn target_link(base: &str, target: &Target) -> (&'static str, Text, String) {
    let of_trace = |trace: &TraceId| format!("{base}/traces/{}", segment(trace.as_str()));
    match target {
        Target::Trace(trace) => ("trace", Text::from(trace.as_str()), of_trace(trace)),
        Target::Observation(trace, id) => {
            let href = format!("{}?observation={}", of_trace(trace), encode(id.as_str()));
            ("observation", Text::from(id.as_str()), href)
        }
        Target::Session(session) => {
            let id = session.as_str();
            ("session", Text::from(id), href(base, GroupKey::Session, id))
        }
        Target::Run(run) => ("run", Text::from(run.as_str()), run_href(base, run)),
    }
}

/// The decision about the target with this id, or the reason why it was not found.
pub(super) async fn explanation(
    app: &App,
    viewer: &Viewer,
    rule: &Rule,
    raw: &str,
) -> Result<Result<RuleExplanation, Text>, Problem> {
    let target = match target(app, viewer, rule.target, raw).await? {
        Ok(target) => target,
        Err(why) => return Ok(Err(why)),
    };
    let found = app.scheduler.explain(&viewer.project, rule, &target).await?;
    let base = viewer.base();
    let (target_kind, target_id, target_href) = target_link(&base, &target);
    let executions = found.executions.iter().map(|execution| {
        let id = execution.made.id.as_str();
        (Text::from(id), Text::from(execution.state.as_str()), execution_href(&base, id))
    });
    Ok(Ok(RuleExplanation {
        step: Text::from(found.step.name()),
        sentence: Text::from(found.step.sentence()),
        facts: facts(&found.step),
        target_kind,
        target_id,
        target_href,
        executions: executions.collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_page_names_trace_and_observation() {
        let url = "http://127.0.0.1:1/project/p/traces/0af7?min=ERROR&observation=a%2Fb&v=tree#x";
        assert_eq!(ids_of_url(url), Some(("0af7".to_owned(), Some("a/b".to_owned()))));
        assert_eq!(ids_of_url("/project/p/traces/t1"), Some(("t1".to_owned(), None)));
        assert_eq!(ids_of_url("00f067aa0ba902b7"), None);
    }
}
