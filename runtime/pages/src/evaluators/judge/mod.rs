//! `P/evaluators/new/judge`, and the editor of a stored judge.
//!
//! The form is also sent to show its prompt, to try it, and to add or remove a message; then nothing is saved.

mod faults;
mod form;
mod output;
mod picking;
mod preview;
mod variables;

use axum::extract::{OriginalUri, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::evaluation::{Evaluator, JUDGES};
use perpend_domain::list::Paging;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::reading;
use perpend_views::{
    JudgeConflict, JudgeConnection, JudgeEditorPage, JudgeFields, JudgeMessage, MappingChoice,
    PromptPreview, RejectedForm, Section, Text, TrialView, encode, evaluator_href,
};
use serde::Deserialize;
use serde_json::{Value, json};

use self::faults::FieldProblems;
use self::form::JudgeDefinition;
use super::new::presets;
use super::trial::{self, TriedEvaluator};
use crate::request::forms::ContentForm;
use crate::request::operations::{call, is_about_input_or_reference, is_busy};
use crate::request::query::Query;
use crate::request::reply::{page, problem_page};
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::rules::definition::differences;
use crate::state::App;

const EVALUATORS: &str = "/api/public/v2/evaluators";
/// Connections to choose from.
const MAX_CONNECTIONS: u32 = 100;
/// Messages of a prompt that the form adds.
const MAX_MESSAGES: usize = 20;
/// Fields of the members of a request and of a configuration: the first one whose name the path begins with.
const PLACES: [(&str, &str); 19] = [
    ("name", "name"),
    ("description", "description"),
    ("variableMapping", "mapping"),
    ("modelConfig", "connection"),
    ("slots", "connection"),
    ("item", "try_item"),
    ("targets", "try_ids"),
    ("recent", "try_q"),
    ("promptRef", "config"),
    ("prompt", "messages"),
    ("/config/prompt_ref", "config"),
    ("/config/prompt", "messages"),
    ("/config/output", "output"),
    ("/config/choice_scores", "categories"),
    ("/config/questions", "questions"),
    ("/config/panel", "repeats"),
    ("/config/temperature", "temperature"),
    ("/config", "config"),
    ("grants", "config"),
];
/// Fields of the limits of a model, by the end of the path.
const LIMITS: [(&str, &str); 5] = [
    ("limits.timeoutMs", "timeout_ms"),
    ("limits.reasks", "reasks"),
    ("limits.maxInputTokens", "max_input_tokens"),
    ("limits.maxOutputTokens", "max_output_tokens"),
    ("limits.maxUsd", "max_usd"),
];

/// Query parameters of a new judge. Those of a trial choose a target.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewJudgeParams {
    /// Name of a preset.
    preset: String,
}

/// Data of the page in addition to the form.
struct Extras {
    /// Name of the preset that fills the form.
    preset: String,
    problems: FieldProblems,
    conflict: Option<JudgeConflict>,
    preview: Option<PromptPreview>,
    choices: Vec<MappingChoice>,
    trial: TrialView,
    /// Whether the values are those of a sent form.
    is_sent: bool,
}

impl Extras {
    /// The fields of a trial alone.
    fn new(viewer: &Viewer, params: &Params) -> Self {
        Self {
            preset: String::new(),
            problems: Vec::new(),
            conflict: None,
            preview: None,
            choices: Vec::new(),
            trial: trial::form(viewer, params),
            is_sent: false,
        }
    }

    /// Problems at their fields, among them those of the trial.
    fn with_problems(mut self, problems: FieldProblems) -> Self {
        let of_trial = problems.iter().filter(|(field, _)| field.starts_with("try_"));
        self.trial.form.problems = of_trial.cloned().collect();
        self.problems = problems;
        self
    }
}

/// A submitted form.
struct SubmittedJudge<'f> {
    app: &'f App,
    form: &'f ContentForm,
    stored: Option<&'f Evaluator>,
    fields: JudgeFields,
}

/// `GET P/evaluators/new/judge`
pub(crate) async fn new_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<NewJudgeParams>,
    OriginalUri(address): OriginalUri,
) -> Result<Response, Problem> {
    let fields = match params.preset.as_str() {
        "" => form::fields_of_definition(&JudgeDefinition::example()),
        name => {
            let preset = presets(&app, &viewer).await?.into_iter().find(|each| each.name == name);
            let preset = preset.ok_or_else(|| Problem::not_found("preset"))?.definition;
            let definition = JudgeDefinition::of_preset(&preset.evaluator, &preset.config);
            JudgeFields {
                name: preset.name,
                description: preset.description,
                ..form::fields_of_definition(&definition)
            }
        }
    };
    let sent = Params::parse(address.query().unwrap_or_default());
    let mut extras = Extras::new(&viewer, &sent);
    extras.preset = params.preset;
    // Most judges read the output of a model.
    extras.trial.form.values.push(("try_q", "type:GENERATION".to_owned()));
    page(StatusCode::OK, &view(&app, &viewer, None, (fields, extras)).await?)
}

/// `POST P/evaluators/new/judge`
pub(crate) async fn create_judge(
    State(app): State<App>,
    form: ContentForm,
) -> Result<Response, Problem> {
    submit(&app, &form, None).await
}

/// Whether this editor is that of an evaluator.
pub(super) fn edits(evaluator: &Evaluator) -> bool {
    evaluator.version.plugin_name == JUDGES
}

/// The editor of a stored judge. Query parameters may choose the targets of a trial.
pub(super) async fn edit_page(
    app: &App,
    viewer: &Viewer,
    evaluator: &Evaluator,
    params: &Params,
) -> Result<Response, Problem> {
    let (fields, extras) = (form::fields_of(evaluator), Extras::new(viewer, params));
    page(StatusCode::OK, &view(app, viewer, Some(evaluator), (fields, extras)).await?)
}

/// Saves, previews or tries the form of a stored judge, or of a new one.
pub(super) async fn submit(
    app: &App,
    form: &ContentForm,
    stored: Option<&Evaluator>,
) -> Result<Response, Problem> {
    let mut fields = form::fields_of_params(&form.fields);
    let mut action = form.fields.text("action").unwrap_or("save");
    if let Some(line) = form.fields.text("pick") {
        let variable = form.fields.text("pick_variable").unwrap_or_default();
        picking::pick(&mut fields, variable, line);
        action = "preview";
    }
    let changed = changed_messages(&fields.messages, action);
    let is_unsent = changed.is_some();
    fields.messages = changed.unwrap_or(fields.messages);
    let definition = form::definition(&fields, stored.map(|stored| &stored.version));
    let submitted = SubmittedJudge { app, form, stored, fields };
    if is_unsent {
        return submitted.page(StatusCode::OK, submitted.extras()).await;
    }
    let definition = match definition {
        Ok(definition) => definition,
        Err(problems) => return submitted.rejected(problems).await,
    };
    match action {
        "save" => submitted.save(&definition).await,
        "preview" => submitted.preview(&definition).await,
        action if trial::ACTIONS.contains(&action) => submitted.run_trial(&definition).await,
        other => {
            let message = format!("must be `save`, `preview`, `estimate` or `try`, got `{other}`");
            Err(Problem::body("action", message))
        }
    }
}

/// The messages after a button that adds or removes one; absent for other buttons.
fn changed_messages(messages: &[JudgeMessage], action: &str) -> Option<Vec<JudgeMessage>> {
    let mut messages = messages.to_vec();
    if action == "add-message" {
        if messages.len() < MAX_MESSAGES {
            messages.push(JudgeMessage { role: "user".to_owned(), content: String::new() });
        }
        return Some(messages);
    }
    let at: usize = action.strip_prefix("remove-message:")?.parse().ok()?;
    if 1 < messages.len() && at < messages.len() {
        messages.remove(at);
    }
    Some(messages)
}

impl SubmittedJudge<'_> {
    fn extras(&self) -> Extras {
        Extras { is_sent: true, ..Extras::new(&self.form.viewer, &self.form.fields) }
    }

    async fn page(&self, status: StatusCode, extras: Extras) -> Result<Response, Problem> {
        let shown = (self.fields.clone(), extras);
        page(status, &view(self.app, &self.form.viewer, self.stored, shown).await?)
    }

    async fn rejected(&self, problems: FieldProblems) -> Result<Response, Problem> {
        let extras = self.extras().with_problems(problems);
        self.page(StatusCode::UNPROCESSABLE_ENTITY, extras).await
    }

    async fn save(&self, definition: &JudgeDefinition) -> Result<Response, Problem> {
        let (app, viewer) = (self.app, &self.form.viewer);
        let act = async {
            let saved = match self.stored {
                None => {
                    let body = self.new_body(definition);
                    call(app, viewer, (Method::POST, EVALUATORS), &body).await?
                }
                Some(stored) => {
                    if !is_base(&self.fields, stored, false) {
                        return Err(Problem::new(Code::Conflict, "the evaluator was renamed"));
                    }
                    let body = patch(stored, &self.fields, definition);
                    let path = format!("{EVALUATORS}/{}", encode(stored.id.as_str()));
                    call(app, viewer, (Method::PATCH, &path), &body).await?
                }
            };
            let id = saved["id"].as_str().unwrap_or_default();
            let words = format!("Evaluator saved; its version is {}.", saved["version"]);
            Ok(SubmissionOutcome::new(words).at(evaluator_href(&viewer.base(), id)))
        };
        match Box::pin(self.form.run_once(app, act)).await {
            Err(problem) if is_about_input_or_reference(&problem) => {
                if let (Code::Conflict, Some(stored)) = (problem.code(), self.stored) {
                    let newest = app.store.catalog.evaluator(&viewer.project, &stored.id).await?;
                    let newest = newest.filter(|newest| !is_base(&self.fields, newest, true));
                    if let Some(newest) = newest {
                        return self.conflict(&newest, definition).await;
                    }
                }
                self.rejected(problems(&problem)).await
            }
            Err(problem) if is_busy(&problem) => self.busy(&problem, "connection").await,
            outcome => outcome,
        }
    }

    /// The body of the request that creates the judge.
    fn new_body(&self, definition: &JudgeDefinition) -> Value {
        let mut body = definition.body();
        body["name"] = json!(self.fields.name);
        if !self.fields.description.is_empty() {
            body["description"] = json!(self.fields.description);
        }
        body
    }

    /// The page of a judge that was changed after its form was opened, with both versions.
    async fn conflict(
        &self,
        newest: &Evaluator,
        definition: &JudgeDefinition,
    ) -> Result<Response, Problem> {
        let mut before = JudgeDefinition::of_version(&newest.version).members();
        let mut after = definition.members();
        (before["name"], after["name"]) = (json!(newest.name), json!(self.fields.name));
        let stored = form::fields_of(newest);
        let fields = JudgeFields {
            version: stored.version,
            stored_name: stored.stored_name,
            stored_description: stored.stored_description,
            ..self.fields.clone()
        };
        let members = differences(&before, &after);
        let conflict = JudgeConflict { version: newest.version.number, members };
        let extras = Extras { conflict: Some(conflict), ..self.extras() };
        let viewer = &self.form.viewer;
        let view = view(self.app, viewer, Some(newest), (fields, extras)).await?;
        page(StatusCode::CONFLICT, &view)
    }

    /// The definition with a name, as a request without saving takes it.
    fn draft(&self, definition: &JudgeDefinition) -> Value {
        let mut body = self.new_body(definition);
        if self.fields.name.is_empty() {
            body["name"] = json!("draft");
        }
        body
    }

    async fn preview(&self, definition: &JudgeDefinition) -> Result<Response, Problem> {
        let (app, viewer) = (self.app, &self.form.viewer);
        let body = match trial::subjects(app, viewer, &self.form.fields).await? {
            Ok(body) => body,
            Err(problems) => return self.rejected(problems).await,
        };
        let draft = self.draft(definition);
        let rendered = preview::preview(app, viewer, &draft, body.clone());
        let mut extras = self.extras();
        let target = match Box::pin(rendered).await {
            Ok((preview, target)) => {
                extras.preview = Some(preview);
                target
            }
            Err(problem) if is_about_input_or_reference(&problem) => {
                extras = extras.with_problems(problems(&problem));
                Box::pin(preview::resolved_target(app, viewer, definition, body)).await
            }
            Err(problem) if is_busy(&problem) => return self.busy(&problem, "try_from").await,
            Err(problem) => return Err(problem),
        };
        if let Some(target) = target {
            let choices = picking::choices(app, viewer, &target);
            // The prompt is shown without a value that does not exist or is too large.
            extras.choices = match reading::limited(&app.web, &viewer.project, choices).await {
                Err(problem) if is_about_input_or_reference(&problem) || is_busy(&problem) => {
                    Vec::new()
                }
                choices => choices?,
            };
        }
        let status = match extras.problems.is_empty() {
            true => StatusCode::OK,
            false => StatusCode::UNPROCESSABLE_ENTITY,
        };
        self.page(status, extras).await
    }

    async fn run_trial(&self, definition: &JudgeDefinition) -> Result<Response, Problem> {
        let draft = self.draft(definition);
        let tried = TriedEvaluator { definition: Some(&draft), stored: self.stored };
        let (app, viewer) = (self.app, &self.form.viewer);
        match Box::pin(trial::run(app, viewer, tried, &self.form.fields)).await {
            Ok(trial) if trial.form.problems.is_empty() => {
                self.page(StatusCode::OK, Extras { trial, ..self.extras() }).await
            }
            Ok(trial) => self.rejected(trial.form.problems).await,
            Err(problem) => self.refused(problem).await,
        }
    }

    /// The form with the problems of a request that saves nothing.
    async fn refused(&self, problem: Problem) -> Result<Response, Problem> {
        match is_about_input_or_reference(&problem) {
            true => self.rejected(problems(&problem)).await,
            false if is_busy(&problem) => self.busy(&problem, "try_from").await,
            false => Err(problem),
        }
    }

    /// The form of a request that the server has no capacity for.
    async fn busy(&self, problem: &Problem, field: &'static str) -> Result<Response, Problem> {
        let problems = vec![(field, Text::from(problem.message()))];
        let shown = (self.fields.clone(), self.extras().with_problems(problems));
        problem_page(problem, &view(self.app, &self.form.viewer, self.stored, shown).await?)
    }
}

/// Whether a form is based on the stored name and description, and on the stored version if that counts.
fn is_base(fields: &JudgeFields, stored: &Evaluator, with_version: bool) -> bool {
    let base = form::fields_of(stored);
    base.stored_name == fields.stored_name
        && base.stored_description == fields.stored_description
        && (!with_version || base.version == fields.version)
}

/// The body of the request that changes a judge: the members that differ.
fn patch(stored: &Evaluator, fields: &JudgeFields, definition: &JudgeDefinition) -> Value {
    let before = form::definition(&form::fields_of(stored), Some(&stored.version));
    // As text: the order of choices counts.
    let text = |definition: &JudgeDefinition| definition.body().to_string();
    let is_same = before.is_ok_and(|before| text(&before) == text(definition));
    let mut body = json!({});
    if !is_same {
        body = definition.body();
        body["ifVersion"] = json!(fields.version.parse::<u32>().unwrap_or_default());
    }
    if fields.name != fields.stored_name {
        body["name"] = json!(fields.name);
    }
    if fields.description != fields.stored_description {
        body["description"] = json!(fields.description);
    }
    body
}

/// The messages of a problem at the fields of the form.
fn problems(problem: &Problem) -> FieldProblems {
    let problem = problem.clone().out_of_member("evaluator").out_of_member("recent");
    let body = problem.rfc9457_body();
    let other = match problem.code() {
        Code::PreflightFailed => "connection",
        Code::InvalidConfig => "config",
        _ => "name",
    };
    let issues = body["issues"].as_array().filter(|issues| !issues.is_empty());
    let Some(issues) = issues else {
        let field = body["field"].as_str().and_then(|path| field_of(path, ""));
        return vec![(field.unwrap_or(other), Text::from(problem.message()))];
    };
    let listed = issues.iter().map(|issue| {
        let path = issue["path"][0].as_str().unwrap_or_default();
        let message = issue["message"].as_str().unwrap_or_default();
        let text = match path.starts_with("/config/") || path.contains(['[', '.']) {
            true => format!("{path}: {message}"),
            false => message.to_owned(),
        };
        (field_of(path, message).unwrap_or(other), Text::from(text))
    });
    listed.collect()
}

/// The field of a path. A message of the plug-in about its configuration begins with the pointer of the value.
fn field_of(path: &str, message: &str) -> Option<&'static str> {
    let limit = LIMITS.iter().find(|(end, _)| path.ends_with(end));
    let pointer = if message.starts_with('/') { message } else { "" };
    let whole = format!("{path}{pointer}");
    let place = PLACES.iter().find(|(start, _)| whole.starts_with(start));
    limit.or(place).map(|(_, field)| *field)
}

async fn view(
    app: &App,
    viewer: &Viewer,
    stored: Option<&Evaluator>,
    (fields, extras): (JudgeFields, Extras),
) -> Result<JudgeEditorPage, Problem> {
    let base = viewer.base();
    let href = stored.map(|stored| evaluator_href(&base, stored.id.as_str()));
    let action = match &href {
        Some(href) => format!("{href}/edit"),
        None => format!("{base}/evaluators/new/judge"),
    };
    let catalog = &app.store.catalog;
    let paging = Paging { page: 1, limit: MAX_CONNECTIONS };
    let connections = catalog.connections(&viewer.project, paging).await?.items.into_iter();
    let default = catalog.default_model(&viewer.project).await?;
    let presets = match stored {
        Some(_) => Vec::new(),
        None => presets(app, viewer).await?,
    };
    let presets = presets.into_iter().map(|preset| {
        let is_selected = preset.name == extras.preset;
        (preset.name, Text::from(preset.title), is_selected)
    });
    let presets = presets.collect();
    Ok(JudgeEditorPage {
        shell: viewer.shell(Section::Evaluators),
        stored: stored.zip(href).map(|(stored, href)| (Text::from(stored.name.as_str()), href)),
        action,
        variables: variables::variables(&fields),
        fields,
        connections: connections
            .map(|each| JudgeConnection { name: each.provider, models: each.custom_models })
            .collect(),
        default_model: default
            .map(|model| Text::from(format!("{} {}", model.provider, model.model))),
        presets,
        rejected_form: RejectedForm { values: Vec::new(), problems: extras.problems },
        conflict: extras.conflict,
        preview: extras.preview,
        choices: extras.choices,
        trial: extras.trial,
        is_sent: extras.is_sent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_at_the_field_of_its_path() {
        let at = |path: &str, message: &str| field_of(path, message);
        assert_eq!(at("variableMapping[0]", ""), Some("mapping"));
        assert_eq!(at("slots[0].limits.reasks", ""), Some("reasks"));
        assert_eq!(at("/config", "/choice_scores: must differ"), Some("categories"));
        assert_eq!(at("/config/panel/repeats", "must be at most 9"), Some("repeats"));
        assert_eq!(at("weather", ""), None);
        let within = Problem::body("variableMapping", "is missing").in_member("evaluator");
        let found = problems(&within);
        assert_eq!((found[0].0, found[0].1.raw()), ("mapping", "is missing"));
    }

    #[test]
    fn a_message_is_added_or_removed_but_not_the_last_one() {
        let one = vec![JudgeMessage::default()];
        let two = changed_messages(&one, "add-message").unwrap();
        assert_eq!(two.len(), 2);
        assert_eq!(changed_messages(&two, "remove-message:1").unwrap().len(), 1);
        assert_eq!(changed_messages(&one, "remove-message:0").unwrap().len(), 1);
        assert!(changed_messages(&one, "save").is_none());
    }
}
