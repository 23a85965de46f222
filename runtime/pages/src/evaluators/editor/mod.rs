//! `GET` and `POST P/evaluators/new/{plugin,code}` and `P/evaluators/{evaluator}/edit`: the forms of evaluators.
//!
//! Invariant: **a refused form keeps its values.** It is shown again with the problems at its fields, and with the stored
//! values that another request saved meanwhile.

pub(super) mod code;
mod plugin;
mod problems;
pub(super) mod schema;

use axum::extract::{OriginalUri, Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::evaluation::{Evaluator, EvaluatorVersion};
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{
    DefinitionChange, EvaluatorConflict, EvaluatorDefinitionFields, EvaluatorFormPage,
    EvaluatorHeadFields, RejectedForm, Section, Text, TrialView, encode, evaluator_href,
};
use serde::Deserialize;
use serde_json::{Value, json};

use self::code::CodeForm;
use self::plugin::PluginForm;
use self::problems::FormProblems;
use super::trial::{self, TriedEvaluator};
use super::{EvaluatorPath, judge};
use crate::request::forms::{ContentForm, as_submitted};
use crate::request::operations::{call, is_about_input_or_reference, is_busy};
use crate::request::query::Query;
use crate::request::reply::{page, problem_page};
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

const EVALUATORS: &str = "/api/public/v2/evaluators";

/// The definition in a form.
enum DefinitionForm {
    Code(CodeForm),
    Plugin(Box<PluginForm>),
}

/// The content of a form apart from its values.
struct Outcome {
    problems: FormProblems,
    trial: TrialView,
    code_editor: Option<String>,
    /// Whether the values are those of a sent form.
    is_sent: bool,
}

impl Outcome {
    /// Without problems, and with the fields of a trial from the parameters of a page or from a form.
    fn opened(app: &App, viewer: &Viewer, params: &Params) -> Self {
        Self {
            problems: FormProblems::default(),
            trial: trial::form(viewer, params),
            code_editor: app.code_editor().map(|script| script.path.clone()),
            is_sent: false,
        }
    }

    fn refused(self, problems: FormProblems) -> Self {
        Self { problems, ..self }
    }
}

impl DefinitionForm {
    async fn of_version(
        app: &App,
        viewer: &Viewer,
        version: &EvaluatorVersion,
    ) -> Result<Self, Problem> {
        if version.runs_source() {
            return Ok(Self::Code(CodeForm::of_version(version)));
        }
        let form = PluginForm::of_version(app, viewer, version).await?;
        Ok(Self::Plugin(Box::new(form)))
    }

    /// Takes the sent values.
    fn take(&mut self, fields: &Params) {
        match self {
            Self::Code(form) => form.take(fields),
            Self::Plugin(form) => form.take(fields),
        }
    }

    /// The members of the request that creates or changes the evaluator.
    fn body(&self) -> Result<Value, FormProblems> {
        match self {
            Self::Code(form) => Ok(form.body()),
            Self::Plugin(form) => form.body(),
        }
    }

    /// Labels and values.
    fn values(&self) -> Vec<(String, String)> {
        match self {
            Self::Code(form) => form.values(),
            Self::Plugin(form) => form.values(),
        }
    }

    fn problems(&self, problem: &Problem) -> FormProblems {
        match self {
            Self::Code(_) => CodeForm::problems(problem),
            Self::Plugin(form) => form.problems(problem),
        }
    }

    fn fields(&self, viewer: &Viewer, problems: &FormProblems) -> EvaluatorDefinitionFields {
        match self {
            Self::Code(form) => EvaluatorDefinitionFields::Code(form.fields(problems)),
            Self::Plugin(form) => {
                EvaluatorDefinitionFields::Plugin(Box::new(form.fields(viewer, problems)))
            }
        }
    }
}

/// Query parameters of a new evaluator of source code.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewCodeParams {
    language: Option<String>,
}

/// The function of a new evaluator.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewPluginParams {
    /// `vendor/name`, `vendor/name@version` or a digest.
    plugin: String,
    function: String,
}

/// `GET P/evaluators/new/code`
pub(crate) async fn new_code_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<NewCodeParams>,
    OriginalUri(address): OriginalUri,
) -> Result<Response, Problem> {
    let wanted = params.language.unwrap_or_default();
    let definition = DefinitionForm::Code(CodeForm::skeleton(&wanted));
    let head = EvaluatorHeadFields::default();
    let outcome =
        Outcome::opened(&app, &viewer, &Params::parse(address.query().unwrap_or_default()));
    page(StatusCode::OK, &view(&viewer, None, (head, &definition), outcome))
}

/// `POST P/evaluators/new/code`
pub(crate) async fn create_code(
    State(app): State<App>,
    form: ContentForm,
) -> Result<Response, Problem> {
    submit(&app, &form, None, DefinitionForm::Code(CodeForm::skeleton(""))).await
}

/// `GET P/evaluators/new/plugin`
pub(crate) async fn new_plugin_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<NewPluginParams>,
    OriginalUri(address): OriginalUri,
) -> Result<Response, Problem> {
    let form = PluginForm::find(&app, &viewer, &params.plugin, &params.function).await?;
    let head = EvaluatorHeadFields { name: form.info.id.clone(), ..EvaluatorHeadFields::default() };
    let definition = DefinitionForm::Plugin(Box::new(form));
    let outcome =
        Outcome::opened(&app, &viewer, &Params::parse(address.query().unwrap_or_default()));
    page(StatusCode::OK, &view(&viewer, None, (head, &definition), outcome))
}

/// `POST P/evaluators/new/plugin`
pub(crate) async fn create_plugin_evaluator(
    State(app): State<App>,
    submitted: ContentForm,
) -> Result<Response, Problem> {
    let field = |name: &str| submitted.fields.raw(name).unwrap_or_default();
    let (reference, function) = (field("plugin"), field("function"));
    let form = PluginForm::find(&app, &submitted.viewer, reference, function).await?;
    submit(&app, &submitted, None, DefinitionForm::Plugin(Box::new(form))).await
}

/// `GET P/evaluators/{evaluator}/edit`
pub(crate) async fn edit_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<EvaluatorPath>,
    OriginalUri(address): OriginalUri,
) -> Result<Response, Problem> {
    let evaluator = path.find(&app, &viewer).await?;
    let params = Params::parse(address.query().unwrap_or_default());
    if judge::edits(&evaluator) {
        return judge::edit_page(&app, &viewer, &evaluator, &params).await;
    }
    let definition = DefinitionForm::of_version(&app, &viewer, &evaluator.version).await?;
    let form = (stored_head(&evaluator), &definition);
    let outcome = Outcome::opened(&app, &viewer, &params);
    page(StatusCode::OK, &view(&viewer, Some(&evaluator), form, outcome))
}

/// `POST P/evaluators/{evaluator}/edit`
pub(crate) async fn change_evaluator(
    State(app): State<App>,
    Path(path): Path<EvaluatorPath>,
    form: ContentForm,
) -> Result<Response, Problem> {
    let evaluator = path.find(&app, &form.viewer).await?;
    if judge::edits(&evaluator) {
        return judge::submit(&app, &form, Some(&evaluator)).await;
    }
    let definition = DefinitionForm::of_version(&app, &form.viewer, &evaluator.version).await?;
    submit(&app, &form, Some(&evaluator), definition).await
}

/// Saves or tries a form. `definition` has the values before the change.
async fn submit(
    app: &App,
    submitted: &ContentForm,
    current: Option<&Evaluator>,
    mut definition: DefinitionForm,
) -> Result<Response, Problem> {
    let viewer = &submitted.viewer;
    let head = sent_head(&submitted.fields);
    let before = definition.body().ok();
    definition.take(&submitted.fields);
    let outcome = Outcome { is_sent: true, ..Outcome::opened(app, viewer, &submitted.fields) };
    let mut body = match definition.body() {
        Ok(body) => body,
        Err(problems) => {
            return rejected(viewer, current, (head, &definition), outcome.refused(problems));
        }
    };
    let is_changed = current.is_none() || before.as_ref() != Some(&body);
    if trial::ACTIONS.contains(&submitted.fields.raw("action").unwrap_or_default()) {
        let name = if head.name.trim().is_empty() { "new" } else { head.name.as_str() };
        body["name"] = json!(name);
        let tried = TriedEvaluator { definition: Some(&body), stored: current };
        let run = Box::pin(trial::run(app, viewer, tried, &submitted.fields)).await;
        return shown(viewer, current, (head, &definition), (run, outcome));
    }
    let act = save(app, viewer, current, &head, is_changed.then_some(body));
    let saved = Box::pin(submitted.run_once(app, act)).await;
    match saved {
        Err(problem) if is_about_input_or_reference(&problem) => {
            if let (Code::Conflict, Some(current)) = (problem.code(), current)
                && let Some(stored) =
                    app.store.catalog.evaluator(&viewer.project, &current.id).await?
                && stored_head(&stored) != base_head(&head)
            {
                return conflict(app, viewer, &stored, (head, &definition, outcome)).await;
            }
            let outcome = outcome.refused(definition.problems(&problem));
            rejected(viewer, current, (head, &definition), outcome)
        }
        Err(problem) if is_busy(&problem) => {
            let outcome = outcome.refused(definition.problems(&problem));
            problem_page(&problem, &view(viewer, current, (head, &definition), outcome))
        }
        saved => saved,
    }
}

/// The form with the results of a trial, or with the problems of the tried definition.
fn shown(
    viewer: &Viewer,
    current: Option<&Evaluator>,
    form: (EvaluatorHeadFields, &DefinitionForm),
    (run, mut outcome): (Result<TrialView, Problem>, Outcome),
) -> Result<Response, Problem> {
    match run {
        Ok(trial) => {
            let status = match trial.form.problems.is_empty() {
                true => StatusCode::OK,
                false => StatusCode::UNPROCESSABLE_ENTITY,
            };
            page(status, &view(viewer, current, form, Outcome { trial, ..outcome }))
        }
        Err(problem) if is_about_input_or_reference(&problem) => {
            let problems = form.1.problems(&problem);
            rejected(viewer, current, form, outcome.refused(problems))
        }
        Err(problem) if is_busy(&problem) => {
            outcome.trial.form.problems = vec![("try_from", Text::from(problem.message()))];
            problem_page(&problem, &view(viewer, current, form, outcome))
        }
        Err(problem) => Err(problem),
    }
}

/// Creates the evaluator, or updates its changed members.
async fn save(
    app: &App,
    viewer: &Viewer,
    current: Option<&Evaluator>,
    head: &EvaluatorHeadFields,
    definition: Option<Value>,
) -> Result<SubmissionOutcome, Problem> {
    let is_new_version = definition.is_some();
    let mut body = definition.unwrap_or_else(|| json!({}));
    let stored = match current {
        None => {
            body["name"] = json!(head.name);
            if !head.description.is_empty() {
                body["description"] = json!(head.description);
            }
            call(app, viewer, (Method::POST, EVALUATORS), &body).await?
        }
        Some(current) => {
            check_head(current, head)?;
            if head.name != head.stored_name {
                body["name"] = json!(head.name);
            }
            if head.description != head.stored_description {
                body["description"] = json!(head.description);
            }
            if is_new_version {
                let known: Option<u32> = head.version.parse().ok();
                let message = "must be the version that the form is based on";
                let known = known.ok_or_else(|| Problem::body("version", message))?;
                body["ifVersion"] = json!(known);
            }
            let operation = format!("{EVALUATORS}/{}", encode(current.id.as_str()));
            call(app, viewer, (Method::PATCH, &operation), &body).await?
        }
    };
    let id = stored["id"].as_str().unwrap_or_default();
    let words = format!("Evaluator saved; its version is {}.", stored["version"]);
    Ok(SubmissionOutcome::new(words).at(evaluator_href(&viewer.base(), id)))
}

/// Refuses a name or description that would replace one of another request.
fn check_head(current: &Evaluator, head: &EvaluatorHeadFields) -> Result<(), Problem> {
    let stored = stored_head(current);
    let texts = [
        (&stored.name, &head.stored_name, &head.name),
        (&stored.description, &head.stored_description, &head.description),
    ];
    let is_lost =
        texts.iter().any(|(stored, base, sent)| stored != base && sent != base && stored != sent);
    match is_lost {
        true => {
            let message = "the name or the description was changed meanwhile: nothing was saved";
            Err(Problem::new(Code::Conflict, message))
        }
        false => Ok(()),
    }
}

fn stored_head(evaluator: &Evaluator) -> EvaluatorHeadFields {
    let name = as_submitted(&evaluator.name);
    let description = as_submitted(evaluator.description.as_deref().unwrap_or_default());
    EvaluatorHeadFields {
        name: name.clone(),
        description: description.clone(),
        version: evaluator.version.number.to_string(),
        stored_name: name,
        stored_description: description,
    }
}

fn sent_head(fields: &Params) -> EvaluatorHeadFields {
    let text = |name: &str| as_submitted(fields.raw(name).unwrap_or_default());
    EvaluatorHeadFields {
        name: text("name"),
        description: text("description"),
        version: text("version"),
        stored_name: text("stored_name"),
        stored_description: text("stored_description"),
    }
}

/// The fields as they were when the form was opened.
fn base_head(sent: &EvaluatorHeadFields) -> EvaluatorHeadFields {
    EvaluatorHeadFields {
        name: sent.stored_name.clone(),
        description: sent.stored_description.clone(),
        ..sent.clone()
    }
}

/// The form with its values and the stored ones that differ. Saving it again replaces the stored values.
async fn conflict(
    app: &App,
    viewer: &Viewer,
    stored: &Evaluator,
    (sent, definition, outcome): (EvaluatorHeadFields, &DefinitionForm, Outcome),
) -> Result<Response, Problem> {
    let stored_definition = DefinitionForm::of_version(app, viewer, &stored.version).await?;
    let base = stored_head(stored);
    let named = |head: &EvaluatorHeadFields| {
        [
            ("Name".to_owned(), head.name.clone()),
            ("Description".to_owned(), head.description.clone()),
        ]
    };
    let before: Vec<(String, String)> =
        named(&base).into_iter().chain(stored_definition.values()).collect();
    let after = named(&sent).into_iter().chain(definition.values());
    let fields = after.filter_map(|(label, after)| {
        let before = before.iter().find(|(other, _)| *other == label);
        let before = before.map(|(_, value)| value.as_str()).unwrap_or_default();
        (before != after).then(|| DefinitionChange {
            before: Text::lines(before),
            after: Text::lines(after.as_str()),
            member: Text::from(label),
        })
    });
    let conflict = EvaluatorConflict { version: stored.version.number, fields: fields.collect() };
    let head = EvaluatorHeadFields { name: sent.name, description: sent.description, ..base };
    let mut view = view(viewer, Some(stored), (head, definition), outcome);
    view.conflict = Some(conflict);
    page(StatusCode::CONFLICT, &view)
}

fn rejected(
    viewer: &Viewer,
    current: Option<&Evaluator>,
    form: (EvaluatorHeadFields, &DefinitionForm),
    outcome: Outcome,
) -> Result<Response, Problem> {
    page(StatusCode::UNPROCESSABLE_ENTITY, &view(viewer, current, form, outcome))
}

fn view(
    viewer: &Viewer,
    current: Option<&Evaluator>,
    (head, definition): (EvaluatorHeadFields, &DefinitionForm),
    Outcome { problems, trial, code_editor, is_sent }: Outcome,
) -> EvaluatorFormPage {
    let base = viewer.base();
    let changed = current.map(|evaluator| {
        let href = evaluator_href(&base, evaluator.id.as_str());
        (Text::from(evaluator.name.as_str()), href)
    });
    let action = match (&changed, definition) {
        (Some((_, href)), _) => format!("{href}/edit"),
        (None, DefinitionForm::Code(_)) => format!("{base}/evaluators/new/code"),
        (None, DefinitionForm::Plugin(_)) => format!("{base}/evaluators/new/plugin"),
    };
    EvaluatorFormPage {
        shell: viewer.shell(Section::Evaluators),
        changed,
        action,
        head,
        definition: definition.fields(viewer, &problems),
        conflict: None,
        trial,
        code_editor,
        is_sent,
        rejected_form: RejectedForm { values: Vec::new(), problems: problems.fields },
    }
}
