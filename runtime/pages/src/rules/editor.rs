//! `GET P/rules/new` and `GET P/rules/{rule}/edit`: the form of a rule, its preview, and its deletion.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::evaluation::{Evaluator, Rule, TargetKind};
use perpend_domain::ids::{EvaluatorId, RuleId};
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{
    EvaluatorChoice, RejectedForm, RuleConflict, RuleEditorPage, RulePreviewView, RulesPage,
    Section, Text, rule_href,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fields::{FieldProblems, RuleForm};
use super::preview::preview;
use super::{RulePath, definition, operation, stored_rule};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input_or_reference};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

const RULES: &str = "/api/public/v2/evaluation-rules";
/// Evaluators of a rule, as in the API.
const MAX_SELECTED: usize = 20;
/// Members of the body and their fields.
const FIELDS: [(&str, &str); 17] = [
    ("name", "name"),
    ("target", "target"),
    ("filter", "q"),
    ("sampling", "sampling"),
    ("evaluatorAssignments", "evaluators"),
    ("versionPolicy", "evaluators"),
    ("schedule", "cron"),
    ("cron", "cron"),
    ("timezone", "timezone"),
    ("settleMs", "settle_ms"),
    ("quietMs", "quiet_ms"),
    ("maxWaitMs", "max_wait_ms"),
    ("onMissing", "on_missing"),
    ("late", "late"),
    ("budget", "budget"),
    ("after", "after"),
    ("audit", "audit"),
];
/// Kinds of targets.
const TARGETS: [(TargetKind, &str); 5] = [
    (TargetKind::Observation, "observations"),
    (TargetKind::Trace, "traces"),
    (TargetKind::Session, "sessions"),
    (TargetKind::Experiment, "items of experiments"),
    (TargetKind::Run, "runs of experiments"),
];

/// Query parameters of a new rule.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewRuleParams {
    /// Kind of target.
    target: Option<String>,
    /// Filter of a list.
    q: Option<String>,
    /// Id of a rule to copy.
    copy: Option<String>,
    /// Id of an evaluator to select.
    evaluator: Option<String>,
}

/// Data of the page in addition to the form.
#[derive(Default)]
struct Extras {
    notices: Vec<Text>,
    problems: FieldProblems,
    conflict: Option<RuleConflict>,
    preview: Option<RulePreviewView>,
}

/// `GET P/rules/new`
pub(crate) async fn new_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<NewRuleParams>,
) -> Result<Response, Problem> {
    let target = params.target.as_deref().and_then(|raw| raw.parse().ok());
    let mut form = RuleForm::new(target.unwrap_or(TargetKind::Observation));
    let mut notices = Vec::new();
    if let Some(copied) = params.copy.as_deref().and_then(|id| RuleId::new(id).ok())
        && let Some(rule) = app.store.catalog.rule(&viewer.project, &copied).await?
    {
        form = RuleForm::of_rule(&rule);
        form.fields.revision = String::new();
        form.fields.name = format!("{} (copy)", rule.name);
    }
    if let Some(evaluator) = params.evaluator {
        form.select(evaluator);
    }
    if let Some(q) = &params.q {
        notices = form.take_filter(q, &viewer.focus.environments);
        if viewer.focus.from.is_some() || viewer.focus.to.is_some() {
            notices.push(Text::from(
                "Not copied from the list: the time range. A rule scores targets that arrive from now on.",
            ));
        }
    }
    let extras = Extras { notices, ..Extras::default() };
    let view = view(&app, &viewer, None, (&form, extras)).await?;
    page(StatusCode::OK, &view)
}

/// `GET P/rules/{rule}/edit`
pub(crate) async fn edit_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<RulePath>,
) -> Result<Response, Problem> {
    let rule = stored_rule(&app, &viewer, &path).await?;
    let form = RuleForm::of_rule(&rule);
    let view = view(&app, &viewer, Some(&rule), (&form, Extras::default())).await?;
    page(StatusCode::OK, &view)
}

/// `POST P/rules`: creates or previews a rule.
pub(crate) async fn create_rule(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    submit(&app, None, &form).await
}

/// `POST P/rules/{rule}/edit`: changes a rule, or previews the change.
pub(crate) async fn change_rule(
    State(app): State<App>,
    Path(path): Path<RulePath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let rule = stored_rule(&app, &form.viewer, &path).await?;
    submit(&app, Some(&rule), &form).await
}

async fn submit(
    app: &App,
    rule: Option<&Rule>,
    submitted: &SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &submitted.viewer;
    let form = RuleForm::of_params(&submitted.fields);
    let action = submitted.fields.text("action").unwrap_or("save");
    if action == "preview" {
        return previewed(app, viewer, rule, &form).await;
    }
    let mut body = match form.body(rule) {
        Ok(body) => body,
        Err(problems) => return rejected(app, viewer, rule, (&form, problems)).await,
    };
    match (action, rule) {
        ("on", _) => body["enabled"] = json!(true),
        (_, None) => body["enabled"] = json!(false),
        (_, Some(_)) => {}
    }
    let act = async {
        let stored = match rule {
            Some(rule) => call(app, viewer, (Method::PATCH, &operation(rule)), &body).await?,
            None => call(app, viewer, (Method::POST, RULES), &body).await?,
        };
        let id = stored["id"].as_str().unwrap_or_default();
        let is_on = stored["enabled"].as_bool() == Some(true);
        let state = if is_on { "It is on." } else { "It is off." };
        let outcome = SubmissionOutcome::new(format!("Rule saved. {state}"));
        Ok::<_, Problem>(outcome.at(rule_href(&viewer.base(), id)))
    };
    match Box::pin(submitted.run_once(app, act)).await {
        Err(problem) if is_about_input_or_reference(&problem) => {
            refused(app, viewer, rule, (form, &body, &problem)).await
        }
        outcome => outcome,
    }
}

/// The page of a form that the API refused: with both versions if the rule was changed meanwhile.
async fn refused(
    app: &App,
    viewer: &Viewer,
    rule: Option<&Rule>,
    (mut form, body, problem): (RuleForm, &Value, &Problem),
) -> Result<Response, Problem> {
    if let (Code::Conflict, Some(rule)) = (problem.code(), rule)
        && let Some(stored) = app.store.catalog.rule(&viewer.project, &rule.id).await?
        && stored.revision().to_string() != form.fields.revision
    {
        let mut typed = stored.definition();
        let changed = form.body(Some(&stored)).unwrap_or_default();
        let changed = changed.as_object().into_iter().flatten();
        for (member, value) in changed.filter(|(member, _)| *member != "revision") {
            typed[member.as_str()] = value.clone();
        }
        if let Some(enabled) = body.get("enabled") {
            typed["enabled"] = enabled.clone();
        }
        let conflict = RuleConflict {
            at: stored.updated_at,
            members: definition::differences(&stored.definition(), &typed),
        };
        form.fields.revision = stored.revision().to_string();
        let extras = Extras { conflict: Some(conflict), ..Extras::default() };
        let view = view(app, viewer, Some(&stored), (&form, extras)).await?;
        return page(StatusCode::CONFLICT, &view);
    }
    rejected(app, viewer, rule, (&form, problems(problem))).await
}

async fn rejected(
    app: &App,
    viewer: &Viewer,
    rule: Option<&Rule>,
    (form, problems): (&RuleForm, FieldProblems),
) -> Result<Response, Problem> {
    let extras = Extras { problems, ..Extras::default() };
    let view = view(app, viewer, rule, (form, extras)).await?;
    page(StatusCode::UNPROCESSABLE_ENTITY, &view)
}

async fn previewed(
    app: &App,
    viewer: &Viewer,
    rule: Option<&Rule>,
    form: &RuleForm,
) -> Result<Response, Problem> {
    let body = match form.body(None) {
        Ok(body) => body,
        Err(problems) => return rejected(app, viewer, rule, (form, problems)).await,
    };
    let names = evaluators(app, viewer, form).await?.into_iter();
    let names: Vec<(String, String)> = names.map(|one| (one.id.to_string(), one.name)).collect();
    match Box::pin(preview(app, viewer, body, &names)).await {
        Ok(mut found) => {
            found.overlaps = overlaps(app, viewer, rule, form).await?;
            let extras = Extras { preview: Some(found), ..Extras::default() };
            let view = view(app, viewer, rule, (form, extras)).await?;
            page(StatusCode::OK, &view)
        }
        Err(problem) if is_about_input_or_reference(&problem) => {
            rejected(app, viewer, rule, (form, problems(&problem))).await
        }
        Err(problem) => Err(problem),
    }
}

/// Names and URLs of other enabled rules of the same kind of target that use an evaluator of the form.
async fn overlaps(
    app: &App,
    viewer: &Viewer,
    rule: Option<&Rule>,
    form: &RuleForm,
) -> Result<Vec<(Text, String)>, Problem> {
    let base = viewer.base();
    let enabled = app.store.catalog.enabled_rules(&viewer.project).await?;
    let is_selected = |id: &str| form.evaluators.iter().any(|own| own.id == id);
    let others = enabled.iter().filter(|other| {
        let mut assignments = other.assignments.iter();
        rule.is_none_or(|rule| rule.id != other.id)
            && other.target == form.target
            && assignments.any(|assignment| is_selected(assignment.evaluator_id.as_str()))
    });
    let link =
        |other: &Rule| (Text::from(other.name.as_str()), rule_href(&base, other.id.as_str()));
    Ok(others.map(link).collect())
}

/// The messages of a problem at the fields of the form.
fn problems(problem: &Problem) -> FieldProblems {
    field_problems(problem, &FIELDS, "evaluators")
}

/// The newest evaluators of the project, and those of the form: one that is not listed would lose its assignment when
/// the form is saved.
async fn evaluators(
    app: &App,
    viewer: &Viewer,
    form: &RuleForm,
) -> Result<Vec<Evaluator>, Problem> {
    let (catalog, project) = (&app.store.catalog, &viewer.project);
    let mut all = catalog.evaluators(project, None, RulesPage::LIMIT).await?.items;
    for own in form.evaluators.iter().take(MAX_SELECTED) {
        let is_listed = all.iter().any(|evaluator| evaluator.id.as_str() == own.id);
        if let (false, Ok(id)) = (is_listed, EvaluatorId::new(&own.id)) {
            all.extend(catalog.evaluator(project, &id).await?);
        }
    }
    Ok(all)
}

/// The evaluators of the project, those of the form first and in its order.
fn choices(all: &[Evaluator], form: &RuleForm) -> Vec<EvaluatorChoice> {
    let place = |id: &str| form.evaluators.iter().position(|own| own.id == id);
    let mut choices: Vec<(usize, EvaluatorChoice)> = Vec::new();
    for evaluator in all {
        let id = evaluator.id.to_string();
        let own = place(&id);
        let selected = own.and_then(|place| form.evaluators.get(place));
        let version = &evaluator.version;
        let note = match &evaluator.paused {
            Some(pause) => format!("paused: {}", pause.message),
            None => format!(
                "{} {}, version {}",
                version.plugin_name, version.plugin_evaluator, version.number
            ),
        };
        let choice = EvaluatorChoice {
            name: Text::from(evaluator.name.as_str()),
            note: Text::from(note),
            is_selected: selected.is_some(),
            mapping: selected.map(|own| own.mapping.clone()).unwrap_or_default(),
            version: selected.map(|own| own.version.clone()).unwrap_or_default(),
            id,
        };
        choices.push((own.unwrap_or(usize::MAX), choice));
    }
    choices.sort_by_key(|(place, _)| *place);
    choices.into_iter().map(|(_, choice)| choice).collect()
}

async fn view(
    app: &App,
    viewer: &Viewer,
    rule: Option<&Rule>,
    (form, extras): (&RuleForm, Extras),
) -> Result<RuleEditorPage, Problem> {
    let base = viewer.base();
    let own_id = rule.map(|rule| rule.id.as_str());
    let href = own_id.map_or_else(|| format!("{base}/rules"), |id| rule_href(&base, id));
    let action = match own_id {
        Some(_) => format!("{href}/edit"),
        None => href.clone(),
    };
    let all = evaluators(app, viewer, form).await?;
    let links = app.store.catalog.rule_links(&viewer.project).await?;
    let others = links.iter().filter(|link| Some(link.id.as_str()) != own_id).map(|link| {
        let id = link.id.to_string();
        let is_selected = form.after.contains(&id);
        (id, Text::from(link.name.as_str()), is_selected)
    });
    let mut others: Vec<(String, Text, bool)> = others.collect();
    // A selected rule that is not listed would be removed when the form is saved.
    others.sort_by_key(|(_, _, is_selected)| !is_selected);
    others.truncate(RulesPage::LIMIT as usize);
    let columns = form.target.filter_columns().iter().map(|column| column.id);
    Ok(RuleEditorPage {
        shell: viewer.shell(Section::Rules),
        name: rule.map(|rule| Text::from(rule.name.as_str())),
        action,
        is_enabled: rule.is_some_and(|rule| rule.enabled),
        fields: form.fields.clone(),
        targets: TARGETS
            .iter()
            .map(|(kind, label)| (kind.as_str(), *label, *kind == form.target))
            .collect(),
        evaluators: choices(&all, form),
        others,
        columns: columns.collect(),
        next_firings: form.next_firings(app.web.clock.now()),
        notices: extras.notices,
        rejected_form: RejectedForm { values: Vec::new(), problems: extras.problems },
        conflict: extras.conflict,
        preview: extras.preview,
        href,
    })
}

/// `POST P/rules/{rule}/delete`: the field `confirm` is the name of the rule.
pub(crate) async fn delete_rule(
    State(app): State<App>,
    Path(path): Path<RulePath>,
    submitted: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &submitted.viewer;
    let rule = stored_rule(&app, viewer, &path).await?;
    if submitted.fields.raw("confirm").unwrap_or_default().trim() != rule.name.trim() {
        let problem = Text::from(format!("must be the name of the rule, `{}`", rule.name));
        let form = RuleForm::of_rule(&rule);
        return rejected(&app, viewer, Some(&rule), (&form, vec![("confirm", problem)])).await;
    }
    let act = async {
        call(&app, viewer, (Method::DELETE, &operation(&rule)), &json!({})).await?;
        let outcome = SubmissionOutcome::new(format!("Rule {} deleted.", rule.name));
        Ok::<_, Problem>(outcome.at(format!("{}/rules", viewer.base())))
    };
    Box::pin(submitted.run_once(&app, act)).await
}
