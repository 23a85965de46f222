//! `GET P/scores/thresholds?name=`: the verdicts of thresholds over stored numbers or probabilities.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ApiRequest, Estimate, FocusView, Parameter, ScoreThresholdLine, ScoreThresholdsPage,
    ScoreThresholdsView, Section, Text, Unit, count, number, plural, with_query,
};
use serde_json::{Value, json};

use super::analytics::{MAX_NAMES, SOURCES};
use crate::read;
use crate::request::operations::{call, is_about_input};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

const OPERATION: &str = "/api/v1/score-thresholds";
/// Fields of the form and parameters of the operation.
const FIELDS: [(&str, &str); 7] = [
    ("name", "name"),
    ("source", "source"),
    ("choice", "choice"),
    ("threshold", "threshold"),
    ("against", "against"),
    ("against-source", "againstSource"),
    ("positive", "positive"),
];

/// `GET P/scores/thresholds`
pub(crate) async fn thresholds_page(
    State(app): State<App>,
    viewer: Viewer,
    params: Params,
) -> Result<Response, Problem> {
    let action = format!("{}/scores/thresholds", viewer.base());
    let sent: Vec<Parameter> = FIELDS
        .iter()
        .filter_map(|(field, _)| Some(((*field).into(), params.text(field)?.to_owned())))
        .collect();
    let names = app.store.telemetry.score_name_list(&viewer.project, MAX_NAMES).await?;
    let query = query(&app, &viewer, &params);
    let mut api = ApiRequest::new(&viewer.origin, OPERATION);
    for (name, value) in &query {
        api = api.with(name, value);
    }
    let href = |choice: &str| {
        let others = sent.iter().filter(|(name, _)| *name != "choice").cloned();
        let choice = [("choice".into(), choice.to_owned())];
        let own: Vec<Parameter> = others.chain(choice).collect();
        with_query(&action, &[own, viewer.focus.parameters()].concat())
    };
    let (mut problem, mut results) = (None, None);
    if params.text("name").is_some() {
        let path = with_query(OPERATION, &query);
        match call(&app, &viewer, (Method::GET, &path), &json!({})).await {
            Ok(found) => results = Some(results_view(&found, href)),
            Err(refused) if is_about_input(&refused) => {
                problem = Some(Text::from(refused.message()));
            }
            Err(failed) => return Err(failed),
        }
    }
    let sources = |field: &str| {
        let own = params.text(field).unwrap_or_default();
        SOURCES.iter().map(|(value, label)| (*value, *label, *value == own)).collect()
    };
    let fields = (action.clone(), sent.clone());
    let value = |(field, _): &(&'static str, _)| {
        (*field, params.text(field).unwrap_or_default().to_owned())
    };
    let view = ScoreThresholdsPage {
        shell: viewer.shell(Section::Scores).with_api([api]),
        focus: FocusView::new(&viewer.focus, fields, ("All time", true)).in_all_environments(),
        hidden_fields: viewer.focus.parameters(),
        names: names.into_iter().map(Text::from).collect(),
        values: FIELDS.iter().map(value).collect(),
        sources: sources("source"),
        reference_sources: sources("against-source"),
        problem,
        results,
        action,
    };
    page(StatusCode::OK, &view)
}

/// The parameters of the operation.
fn query(app: &App, viewer: &Viewer, params: &Params) -> Vec<(&'static str, String)> {
    let mut query = Vec::new();
    let has_reference = params.text("against").is_some();
    for (field, parameter) in FIELDS {
        // The form sends the fields of the reference without one.
        if !has_reference && ["againstSource", "positive"].contains(&parameter) {
            continue;
        }
        if let Some(value) = params.text(field) {
            query.push((parameter, value.to_owned()));
        }
    }
    if !viewer.focus.environments.is_empty() {
        query.push(("environment", viewer.focus.environments.join(",")));
    }
    let (from, to) = viewer.focus.range(read::start_of_minute(app.web.clock.now()));
    for (name, at) in [("fromTimestamp", from), ("toTimestamp", to)] {
        if let Some(at) = at {
            query.push((name, at.to_iso_micros()));
        }
    }
    query
}

fn share(value: &Value, interval: &Value) -> String {
    let ends = interval["lower"].as_f64().zip(interval["upper"].as_f64());
    let estimate = value.as_f64().map(|mean| Estimate {
        mean,
        interval: ends.map(|(lower, upper)| [lower, upper]),
        n: 0,
        unit: Unit::Share,
    });
    estimate.map(|estimate| estimate.text()).unwrap_or_default()
}

fn results_view(found: &Value, href: impl Fn(&str) -> String) -> ScoreThresholdsView {
    let all = |name: &str| found[name].as_array().map_or(&[][..], Vec::as_slice);
    let n = |value: &Value| value.as_u64().map(count).unwrap_or_default();
    let lines = all("thresholds").iter().map(|each| {
        let agreement = &each["agreement"];
        ScoreThresholdLine {
            threshold: each["threshold"].as_f64().map(number).unwrap_or_default(),
            is_best: found["best"].is_number() && each["threshold"] == found["best"],
            passed: n(&each["nPassed"]),
            share: share(&each["share"], &each["interval"]),
            flips: n(&each["nFlips"]),
            pairs: n(&agreement["nPairs"]),
            agreement: share(&agreement["agreement"], &agreement["interval"]),
            kappa: agreement["kappa"]
                .as_f64()
                .map(|kappa| format!("{kappa:.2}"))
                .unwrap_or_default(),
            precision: share(&agreement["precision"], &Value::Null),
            recall: share(&agreement["recall"], &Value::Null),
        }
    });
    let choices = all("choices").iter().filter_map(Value::as_str);
    let left_out = found["nLeftOut"].as_u64().filter(|n| 0 < *n);
    ScoreThresholdsView {
        measure: Text::from(match found["choice"].as_str() {
            Some(choice) => format!("the stored probability of {choice}"),
            None => "the value of numeric scores".to_owned(),
        }),
        scores: plural(found["n"].as_u64().unwrap_or_default(), "score"),
        left_out: left_out.map(|n| plural(n, "score")),
        choices: choices.map(|choice| (Text::from(choice), href(choice))).collect(),
        has_flips: all("thresholds").iter().any(|each| each["nFlips"].is_u64()),
        has_reference: all("thresholds").iter().any(|each| each["agreement"].is_object()),
        lines: lines.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_name_the_measure_and_the_best_threshold() {
        let found = json!({
            "choice": "yes", "choices": ["no", "yes"], "n": 4, "nLeftOut": 1, "best": 0.7,
            "thresholds": [
                { "threshold": 0.5, "nPassed": 3, "share": 0.75, "interval": null, "nFlips": 0, "agreement": null },
                { "threshold": 0.7, "nPassed": 2, "share": 0.5, "interval": { "lower": 0.2, "upper": 0.8 },
                  "nFlips": 1, "agreement": { "nPairs": 4, "agreement": 1.0, "interval": null, "kappa": 1.0,
                                              "precision": 1.0, "recall": null } },
            ],
        });
        let view = results_view(&found, |choice| format!("/{choice}"));
        assert_eq!(view.measure.raw(), "the stored probability of yes");
        let best: Vec<bool> = view.lines.iter().map(|line| line.is_best).collect();
        assert_eq!(best, [false, true]);
        assert!(view.has_flips && view.has_reference);
        assert_eq!((view.lines[1].recall.as_str(), view.lines[1].kappa.as_str()), ("", "1.00"));
        assert_eq!(view.choices[0].1, "/no");
    }
}
