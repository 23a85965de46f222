//! Time, cost and failures of an evaluator, its scores by version, and its agreement with people.

use axum::http::Method;
use perpend_domain::evaluation::{Evaluator, EvaluatorVersion};
use perpend_domain::score::ScoreSource;
use perpend_domain::time::Timestamp;
use perpend_executions::{EvaluatorFigures, Percentiles};
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::VersionScores;
use perpend_views::{
    EvaluatorFiguresView, Html, PeopleAgreement, Text, VersionTrend, count, date, dollars,
    duration, encode, percent, plural, with_query,
};
use serde_json::json;

use super::list::week;
use super::scores::means;
use crate::request::operations::call;
use crate::request::viewer::Viewer;
use crate::state::App;

const DAY_MS: i64 = 86_400_000;
/// Days of the scores by version.
const N_DAYS: i64 = 14;
/// Versions whose scores are shown, and scores that are counted of each.
const MAX_VERSIONS: usize = 5;
const MAX_SCORES: u32 = 20_000;
/// Names of scores that are compared with people.
const MAX_NAMES: usize = 3;

/// The figures of an evaluator. `scores` are those of its versions, newest first.
pub(super) async fn view(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
    (versions, scores): (&[EvaluatorVersion], &[Vec<VersionScores>]),
) -> Result<EvaluatorFiguresView, Problem> {
    let ledger = &app.store.ledger;
    let figures = ledger.evaluator_figures(&viewer.project, &evaluator.id, week(app)).await?;
    let newest = scores.first().map(Vec::as_slice).unwrap_or_default();
    Ok(EvaluatorFiguresView {
        facts: facts(&figures),
        versions: by_version(app, viewer, versions, scores).await?,
        calibration: calibration(app, viewer, evaluator).await?,
        people: people(app, viewer, evaluator, newest).await?,
    })
}

/// `p50 1.20 s, p95 3.00 s`.
fn times(percentiles: Option<Percentiles>, micros: i64) -> Option<String> {
    let Percentiles { p50, p95 } = percentiles?;
    let text = |value: i64| duration(value.saturating_mul(micros));
    Some(format!("p50 {}, p95 {}", text(p50), text(p95)))
}

fn share(n: u64, of: u64) -> String {
    match of {
        0 => "none".to_owned(),
        of => format!("{}, {} failed", count(of), percent(n as f64 / of as f64)),
    }
}

fn facts(figures: &EvaluatorFigures) -> Vec<(&'static str, Html)> {
    let label = match figures.is_cut {
        true => "Among the newest 5,000 executions of the project",
        false => "Executions of 7 days",
    };
    let mut facts = vec![(label, Some(share(figures.n_failed, figures.n_executions)))];
    facts.push(("Time of an execution", times(figures.time_us, 1)));
    if 0 < figures.n_calls {
        facts.push(("Model calls", Some(share(figures.n_failed_calls, figures.n_calls))));
        facts.push(("Time of a call", times(figures.call_ms, 1_000)));
        let cost = figures.usd_per_call.map_or_else(|| "unknown".to_owned(), dollars);
        facts.push(("Cost of a call", Some(cost)));
    }
    let shown = facts.into_iter().filter_map(|(label, value)| Some((label, value?)));
    shown.map(|(label, value)| (label, Html::from(Text::from(value)))).collect()
}

/// The scores of the newest versions by day; none without scores.
async fn by_version(
    app: &App,
    viewer: &Viewer,
    versions: &[EvaluatorVersion],
    scores: &[Vec<VersionScores>],
) -> Result<Vec<VersionTrend>, Problem> {
    let shown = versions.get(..MAX_VERSIONS.min(versions.len())).unwrap_or_default();
    let keys: Vec<_> = shown.iter().map(|version| version.id.clone()).collect();
    let today = app.web.clock.now().as_millis().div_euclid(DAY_MS);
    let starts = (0..N_DAYS).rev().map(|ago| (today - ago) * DAY_MS);
    let starts: Vec<Timestamp> = starts.map(Timestamp::from_millis).collect();
    let Some(first) = starts.first() else {
        return Ok(Vec::new());
    };
    let telemetry = &app.store.telemetry;
    let found = telemetry.version_scores_by_day(&viewer.project, &keys, *first, MAX_SCORES).await?;
    let lines = shown.iter().zip(&found).zip(scores).filter(|((_, days), _)| !days.is_empty());
    let lines = lines.map(|((version, days), scores)| {
        let href = format!("{}/scores?fingerprint={}", viewer.base(), version.fingerprint);
        let counts = starts.iter().map(|at| (date(*at), days.get(at).copied().unwrap_or_default()));
        let counts: Vec<(String, u64)> = counts.collect();
        let is_cut = u64::from(MAX_SCORES) <= days.values().sum::<u64>();
        let values = means(std::slice::from_ref(scores));
        VersionTrend::new(version.number, href, (counts.as_slice(), is_cut), values)
    });
    Ok(lines.collect())
}

/// The calibration of the newest version, if it was checked.
async fn calibration(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
) -> Result<Option<(String, &'static str, Text)>, Problem> {
    let path = format!("/api/v1/evaluators/{}/check", encode(evaluator.id.as_str()));
    let found = call(app, viewer, (Method::GET, &path), &json!({})).await?;
    let Some(last) = found["data"].as_array().and_then(|all| all.first()) else {
        return Ok(None);
    };
    let status = found["status"].as_str().unwrap_or_default().to_owned();
    let explanation = last["explanation"].as_str().unwrap_or_default();
    let number = last["version"].as_u64().unwrap_or_default();
    let words = Text::from(format!("Last check, of version {number}: {explanation}"));
    let tone = match status.as_str() {
        "calibrated" => "good",
        "weak" => "bad",
        _ => "waiting",
    };
    Ok(Some((status, tone, words)))
}

/// The agreement of the newest version with people, by name of its scores.
async fn people(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
    scores: &[VersionScores],
) -> Result<Vec<PeopleAgreement>, Problem> {
    let version = (&evaluator.id, &evaluator.version.id);
    let mut lines: Vec<PeopleAgreement> = Vec::new();
    for VersionScores { name, .. } in scores.iter().take(MAX_NAMES) {
        if lines.iter().any(|line| line.name.raw() == name) {
            continue;
        }
        let found = app.store.agreement_with_people(&viewer.project, version, name).await?;
        let Some(found) = found else {
            continue;
        };
        let pairs = [
            ("a", name.as_str()),
            ("a-source", ScoreSource::Annotation.as_str()),
            ("b", name.as_str()),
            ("b-source", ScoreSource::Eval.as_str()),
        ];
        let pairs = pairs.map(|(parameter, value)| (parameter, value.to_owned()));
        lines.push(PeopleAgreement {
            name: Text::from(name.as_str()),
            pairs: plural(found.n_pairs, "pair"),
            sentence: Text::from(found.obstacle.unwrap_or(found.sentence)),
            href: with_query(&format!("{}/scores/analytics", viewer.base()), &pairs),
        });
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluator_without_model_calls_has_no_figures_of_them() {
        let time_us = Some(Percentiles { p50: 2_000, p95: 40_000 });
        let figures =
            EvaluatorFigures { n_executions: 4, n_failed: 1, time_us, ..Default::default() };
        let labels: Vec<&str> = facts(&figures).iter().map(|(label, _)| *label).collect();
        assert_eq!(labels, ["Executions of 7 days", "Time of an execution"]);
        let with_calls = EvaluatorFigures { n_calls: 2, ..figures };
        assert_eq!(facts(&with_calls).len(), 4, "without a reply a call has no time");
        assert_eq!(times(time_us, 1).unwrap(), "p50 2.0 ms, p95 40 ms");
        assert_eq!((share(1, 4), share(0, 0)), ("4, 25 % failed".to_owned(), "none".to_owned()));
    }
}
