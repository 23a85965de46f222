//! `GET P/rule-runs`: the form that applies a rule to selected rows of a list; `POST` runs it.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::evaluation::TargetKind;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::{RejectedForm, RuleRunPage, Section, Text, count, encode, plural, rule_href};
use serde_json::{Value, json};

use crate::list::selected::SelectedRows;
use crate::request::forms::ContentForm;
use crate::request::operations::{call, field_problems, is_about_input_or_reference, sent_values};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Members of the body and their fields.
const FIELDS: [(&str, &str); 2] = [("mode", "mode"), ("targets", "rule")];

/// Selected rows of one kind, and their list.
struct Selection {
    rows: SelectedRows,
    kind: TargetKind,
    /// URL of the list relative to the project.
    list: Option<String>,
}

impl Selection {
    fn of(params: &Params) -> Self {
        let rows = SelectedRows::of(params);
        let list = params.text("in").map(str::to_owned);
        let is_in = |path: &str| list.as_deref().is_some_and(|list| list.starts_with(path));
        let kind = match (rows.observations.is_empty(), rows.sessions.is_empty()) {
            (false, _) => TargetKind::Observation,
            (true, false) => TargetKind::Session,
            (true, true) if is_in("/observations") => TargetKind::Observation,
            (true, true) if is_in("/sessions") => TargetKind::Session,
            (true, true) => TargetKind::Trace,
        };
        let list = list.filter(|list| list.starts_with(&path_of(kind)));
        Self { rows, kind, list }
    }

    fn targets(&self) -> Vec<Value> {
        match self.kind {
            TargetKind::Observation => {
                let all = self.rows.observations.iter();
                all.map(|(trace, id)| json!({ "traceId": trace, "observationId": id })).collect()
            }
            TargetKind::Session => {
                self.rows.sessions.iter().map(|id| json!({ "sessionId": id })).collect()
            }
            _ => self.rows.traces.iter().map(|id| json!({ "traceId": id })).collect(),
        }
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let rows = self.rows.fields().into_iter().filter(|(name, _)| *name == self.kind.as_str());
        rows.chain(self.list.iter().map(|list| ("in", list.clone()))).collect()
    }
}

/// Path of the list of such targets below the project.
fn path_of(kind: TargetKind) -> String {
    format!("/{kind}s")
}

const fn title(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Observation | TargetKind::Experiment => "Observations",
        TargetKind::Session => "Sessions",
        TargetKind::Trace | TargetKind::Run => "Traces",
    }
}

/// `GET P/rule-runs`
pub(crate) async fn form_page(
    State(app): State<App>,
    viewer: Viewer,
    params: Params,
) -> Result<Response, Problem> {
    let view = view(&app, &viewer, &params, RejectedForm::default()).await?;
    page(StatusCode::OK, &view)
}

/// `POST P/rule-runs`
pub(crate) async fn run_rule(
    State(app): State<App>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let (viewer, fields) = (&form.viewer, &form.fields);
    let rule = fields.raw("rule").unwrap_or_default();
    let body = json!({ "targets": Selection::of(fields).targets(), "mode": fields.text("mode") });
    let act = async {
        let path = format!("/api/v1/evaluation-rules/{}/run", encode(rule));
        let found = call(&app, viewer, (Method::POST, &path), &body).await?;
        Ok(SubmissionOutcome::new(outcome(&found)).at(rule_href(&viewer.base(), rule)))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input_or_reference(&problem) => {
            let problems = field_problems(&problem, &FIELDS, "rule");
            let form = RejectedForm { values: sent_values(fields, ["mode"]), problems };
            let view = view(&app, viewer, fields, form).await?;
            page(StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        outcome => outcome,
    }
}

/// The response of the operation in words.
fn outcome(found: &Value) -> String {
    let n = |member: &str| found[member].as_u64().unwrap_or_default();
    let executions = found["executionIds"].as_array().map_or(0, Vec::len) as u64;
    let mut parts = vec![format!(
        "{} queued ({})",
        plural(n("itemCount"), "target"),
        plural(executions, "execution")
    )];
    let others = [
        ("presentCount", "with a result or an open execution"),
        ("refusedCount", "that the rule never scores"),
        ("leftOutCount", "not complete or without budget"),
        ("missingCount", "not found"),
    ];
    let others = others.into_iter().filter(|(member, _)| 0 < n(member));
    parts.extend(others.map(|(member, label)| format!("{} {label}", count(n(member)))));
    format!("{}.", parts.join(", "))
}

async fn view(
    app: &App,
    viewer: &Viewer,
    params: &Params,
    rejected_form: RejectedForm,
) -> Result<RuleRunPage, Problem> {
    let selection = Selection::of(params);
    let base = viewer.base();
    let (kind, n) = (selection.kind, selection.targets().len());
    let chosen = params.raw("rule").unwrap_or_default();
    let rules = app.store.catalog.enabled_rules(&viewer.project).await?.into_iter().rev();
    let rules = rules.filter(|rule| rule.target.size() == kind.size());
    let rules = rules.map(|rule| {
        let is_selected = rule.id.as_str() == chosen;
        (rule.id.to_string(), Text::from(rule.name), is_selected)
    });
    let list = selection.list.clone().unwrap_or_else(|| path_of(kind));
    Ok(RuleRunPage {
        shell: viewer.shell(Section::Rules),
        action: format!("{base}/rule-runs"),
        selected: plural(n as u64, kind.as_str()),
        is_empty: n == 0,
        list: (title(kind), format!("{base}{list}")),
        target: kind.as_str(),
        fields: selection.fields(),
        rules: rules.collect(),
        rejected_form,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_rows_are_targets_of_one_kind() {
        let of = |query: &str| Selection::of(&Params::parse(query));
        let observations = of("observation=t%3Ao&in=%2Fobservations%3Fq%3Dx");
        assert_eq!(observations.targets(), [json!({ "traceId": "t", "observationId": "o" })]);
        assert_eq!(observations.list.as_deref(), Some("/observations?q=x"));
        assert_eq!(of("session=s").targets(), [json!({ "sessionId": "s" })]);
        assert_eq!(of("trace=a&trace=b&choose=1").targets().len(), 2);
        assert_eq!(of("in=%2F%2Fexample.com").list, None);
    }

    #[test]
    fn an_outcome_counts_what_was_not_queued() {
        let found = json!({ "executionIds": ["a", "b"], "itemCount": 1, "missingCount": 2 });
        assert_eq!(outcome(&found), "1 target queued (2 executions), 2 not found.");
    }
}
