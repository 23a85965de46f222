//! The fields of an evaluator of a plug-in.

use perpend_catalog::Plugin;
use perpend_domain::evaluation::{EvaluatorVersion, Mapping};
use perpend_domain::list::Paging;
use perpend_domain::plugin::{EvaluatorInfo, Grants, ModelSlot};
use perpend_domain::slots::{ModelChoice, ModelLimits, Slot};
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{ModelField, PluginFields, PluginGrant, Text};
use serde_json::{Map, Value, json};

use super::problems::FormProblems;
use super::schema::{ConfigProblems, ConfigSchema, ConfigTexts, OTHERS};
use crate::plugins::list::plugin_href;
use crate::plugins::one::evaluator_view;
use crate::request::forms::as_submitted;
use crate::request::operations::field_problems;
use crate::request::viewer::Viewer;
use crate::rules::definition::mapping_line;
use crate::rules::fields::mapping;
use crate::state::App;

/// Members of the body and their fields.
const FIELDS: [(&str, &str); 8] = [
    ("name", "name"),
    ("description", "description"),
    ("plugin", "function"),
    ("evaluator", "function"),
    ("grants", "grants"),
    ("slots", "models"),
    ("modelConfig", "models"),
    ("variableMapping", "mapping"),
];
/// Connections in the form.
const MAX_CONNECTIONS: u32 = 100;
/// Values of the field of a connection: the default evaluation model, and the prefix of a name.
const DEFAULT: &str = "default";
const NAMED: &str = "name:";

/// The values of the fields of an evaluator of a plug-in.
pub(super) struct PluginForm {
    plugin: Plugin,
    pub(super) info: EvaluatorInfo,
    reference: String,
    schema: ConfigSchema,
    /// Names of connections.
    connections: Vec<String>,
    stored: StoredValues,
    texts: ConfigTexts,
    /// For each slot of the function the connection and the model.
    models: Vec<(String, String)>,
    grants: Grants,
    mapping: String,
}

/// The stored values of the fields. An unchanged field keeps its value as it is stored.
#[derive(Default)]
struct StoredValues {
    config: Value,
    slots: Vec<Slot>,
    mapping: Vec<Mapping>,
}

impl PluginForm {
    /// The empty form of a function.
    pub(super) async fn find(
        app: &App,
        viewer: &Viewer,
        reference: &str,
        function: &str,
    ) -> Result<Self, Problem> {
        let catalog = &app.store.catalog;
        let plugin = catalog.resolve_plugin(&viewer.project, reference).await?;
        let plugin = plugin.ok_or_else(|| Problem::not_found("plug-in"))?;
        let info = plugin.info.evaluators.iter().find(|info| info.id == function);
        let info = info.ok_or_else(|| Problem::not_found("function of the plug-in"))?.clone();
        let connections = match info.slots.is_empty() {
            true => Vec::new(),
            false => {
                let paging = Paging { page: 1, limit: MAX_CONNECTIONS };
                let found = catalog.connections(&viewer.project, paging).await?;
                found.items.into_iter().map(|connection| connection.provider).collect()
            }
        };
        let schema = ConfigSchema::parse(&info.config_schema);
        let choice = |slot: &ModelSlot| match slot.required {
            true => (DEFAULT.to_owned(), String::new()),
            false => (String::new(), String::new()),
        };
        Ok(Self {
            reference: reference.to_owned(),
            texts: schema.texts(&Value::Null),
            models: info.slots.iter().map(choice).collect(),
            grants: plugin.info.required(&info),
            mapping: String::new(),
            stored: StoredValues::default(),
            connections,
            schema,
            info,
            plugin,
        })
    }

    /// The form of a stored version.
    pub(super) async fn of_version(
        app: &App,
        viewer: &Viewer,
        version: &EvaluatorVersion,
    ) -> Result<Self, Problem> {
        let (digest, function) = (version.plugin.to_string(), &version.plugin_evaluator);
        let mut form = Self::find(app, viewer, &digest, function).await?;
        let model = |slot: &ModelSlot| {
            let own = version.slots.iter().find(|own| own.name == slot.name);
            match own.map(|own| own.model.as_ref()) {
                None => (String::new(), String::new()),
                Some(None) => (DEFAULT.to_owned(), String::new()),
                Some(Some(choice)) => (format!("{NAMED}{}", choice.provider), choice.model.clone()),
            }
        };
        form.models = form.info.slots.iter().map(model).collect();
        form.texts = form.schema.texts(&version.config);
        form.grants = version.grants;
        form.mapping = mapping_lines(&version.mapping);
        form.stored = StoredValues {
            config: version.config.clone(),
            slots: version.slots.clone(),
            mapping: version.mapping.clone(),
        };
        Ok(form)
    }

    /// Takes the sent values.
    pub(super) fn take(&mut self, fields: &Params) {
        let text = |name: &str| {
            let raw = as_submitted(fields.raw(name).unwrap_or_default());
            raw.trim().to_owned()
        };
        self.texts = self.schema.sent(fields);
        let slots = self.info.slots.iter();
        let model = |slot: &ModelSlot| {
            (text(&format!("connection.{}", slot.name)), text(&format!("model.{}", slot.name)))
        };
        self.models = slots.map(model).collect();
        let required = self.plugin.info.required(&self.info);
        let sent = fields.all("grant");
        self.grants = sent.iter().fold(required, |all, name| all.with(name).unwrap_or(all));
        let uses_model = self.models.iter().any(|(connection, _)| !connection.is_empty());
        self.grants.model |= uses_model && self.plugin.info.capabilities.model;
        self.mapping = text("mapping");
    }

    pub(super) fn body(&self) -> Result<Value, FormProblems> {
        let mut problems = FormProblems::default();
        let config = self.schema.config(&self.texts, &self.stored.config).unwrap_or_else(|own| {
            problems.fields.extend(self.listed(&own));
            problems.config = own;
            Value::Null
        });
        let slots = self.slots().unwrap_or_else(|problem| {
            problems.fields.push(("models", problem));
            Vec::new()
        });
        let mapping = match self.mapping == mapping_lines(&self.stored.mapping) {
            true => Ok(self.stored.mapping.clone()),
            false => mapping(&self.mapping).map(Option::unwrap_or_default),
        };
        let mapping = mapping.unwrap_or_else(|problem| {
            problems.fields.push(("mapping", problem));
            Vec::new()
        });
        if !problems.fields.is_empty() {
            return Err(problems);
        }
        Ok(json!({
            "type": "plugin",
            "plugin": self.reference,
            "evaluator": self.info.id,
            "config": config,
            "variableMapping": mapping,
            "grants": self.grants.names(),
            "slots": slots,
        }))
    }

    /// The slots with their models; limits and parameters of a stored model are kept.
    fn slots(&self) -> Result<Vec<Slot>, Text> {
        let mut slots = Vec::new();
        for (declared, (connection, model)) in self.info.slots.iter().zip(&self.models) {
            if connection.is_empty() {
                continue;
            }
            let name = &declared.name;
            let own = self.stored.slots.iter().find(|own| own.name == *name);
            let choice = match connection.strip_prefix(NAMED) {
                None if model.is_empty() => None,
                None => {
                    let message = format!("`{name}` must have a connection for `{model}`");
                    return Err(Text::from(message));
                }
                Some(_) if model.is_empty() => {
                    let message = format!("`{name}` must have a model of its connection");
                    return Err(Text::from(message));
                }
                Some(provider) => {
                    let stored = own.and_then(|own| own.model.clone());
                    let is_same = |choice: &ModelChoice| {
                        choice.provider == provider && choice.model == *model
                    };
                    let written = || ModelChoice {
                        provider: provider.to_owned(),
                        model: model.clone(),
                        params: Map::new(),
                    };
                    Some(stored.filter(is_same).unwrap_or_else(written))
                }
            };
            let limits = own.map_or_else(ModelLimits::default, |own| own.limits);
            slots.push(Slot { name: name.clone(), model: choice, limits });
        }
        Ok(slots)
    }

    /// Labels and values.
    pub(super) fn values(&self) -> Vec<(String, String)> {
        let members = self.schema.members.iter().zip(&self.texts.members);
        let members = members.map(|(member, text)| (member.name.clone(), text.clone()));
        let slots = self.info.slots.iter().zip(&self.models);
        let models = slots.map(|(slot, (connection, model))| {
            let connection = connection.strip_prefix(NAMED).unwrap_or(connection);
            (format!("Model {}", slot.name), format!("{connection} {model}").trim().to_owned())
        });
        let rest = [
            ("Further members".to_owned(), self.texts.others.clone()),
            ("Capabilities".to_owned(), self.grants.names().join(", ")),
            ("Variable mapping".to_owned(), self.mapping.clone()),
        ];
        members.chain(models).chain(rest).collect()
    }

    pub(super) fn problems(&self, problem: &Problem) -> FormProblems {
        if problem.code() != Code::InvalidConfig {
            let other = match problem.code() {
                Code::PreflightFailed => "models",
                _ => "function",
            };
            let fields = field_problems(problem, &FIELDS, other);
            return FormProblems { fields, config: Vec::new() };
        }
        let body = problem.rfc9457_body();
        let issues = body["issues"].as_array().into_iter().flatten();
        let config = issues.map(|issue| {
            let path = issue["path"][0].as_str().unwrap_or_default();
            self.config_problem(path, issue["message"].as_str().unwrap_or_default())
        });
        let mut config: ConfigProblems = config.collect();
        if config.is_empty() {
            config.push((None, Text::from(problem.message())));
        }
        FormProblems { fields: self.listed(&config), config }
    }

    /// A violation at its member. The plug-in itself writes the JSON Pointer before its message.
    fn config_problem(&self, path: &str, message: &str) -> (Option<usize>, Text) {
        let path = path.strip_prefix("/config").unwrap_or(path);
        let (pointer, message) = match message.split_once(": ") {
            Some((own, rest)) if path.is_empty() && (own.is_empty() || own.starts_with('/')) => {
                (own, rest)
            }
            _ => (path, message),
        };
        let rest = pointer.strip_prefix('/').unwrap_or(pointer);
        let (member, inner) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let place = self.schema.place(&member.replace("~1", "/").replace("~0", "~"));
        let at = if place.is_some() { inner } else { pointer };
        match at.is_empty() {
            true => (place, Text::from(message)),
            false => (place, Text::from(format!("{at}: {message}"))),
        }
    }

    /// Violations of the configuration as problems of the form, with the names of their members.
    fn listed(&self, problems: &[(Option<usize>, Text)]) -> Vec<(&'static str, Text)> {
        let listed = problems.iter().map(|(place, problem)| {
            let member = place.and_then(|place| self.schema.members.get(place));
            match member {
                Some(member) => {
                    let text = format!("{}: {}", member.name, problem.raw());
                    ("config", Text::from(text))
                }
                None if self.has_others() => (OTHERS, problem.clone()),
                None => ("config", problem.clone()),
            }
        });
        listed.collect()
    }

    fn has_others(&self) -> bool {
        self.schema.is_open || !self.texts.others.is_empty()
    }

    pub(super) fn fields(&self, viewer: &Viewer, problems: &FormProblems) -> PluginFields {
        let info = &self.plugin.info;
        let required = info.required(&self.info).names();
        let granted = self.grants.names();
        let grants = info.capabilities.names().into_iter().map(|name| PluginGrant {
            name,
            is_granted: granted.contains(&name),
            is_required: required.contains(&name),
        });
        let models = self.info.slots.iter().zip(&self.models);
        let model = |(slot, (connection, model)): (&ModelSlot, &(String, String))| ModelField {
            name: slot.name.clone(),
            description: Text::from(slot.description.as_str()),
            connections: self.choices(slot, connection),
            model: model.clone(),
        };
        PluginFields {
            reference: self.reference.clone(),
            function: self.info.id.clone(),
            plugin: Text::from(format!("{} {}", info.name, info.version)),
            plugin_href: plugin_href(viewer, &self.plugin.digest),
            about: evaluator_view(&self.info),
            config: self.schema.fields(&self.texts, &problems.config),
            others: self.has_others().then(|| self.texts.others.clone()),
            models: models.map(model).collect(),
            grants: grants.collect(),
            mapping: self.mapping.clone(),
        }
    }

    /// The choices of a connection for a slot. A selected one that is not listed would be lost when the form is saved.
    fn choices(&self, slot: &ModelSlot, selected: &str) -> Vec<(String, Text, bool)> {
        let mut choices = Vec::new();
        if !slot.required {
            choices.push((String::new(), Text::from("not used")));
        }
        choices.push((DEFAULT.to_owned(), Text::from("default evaluation model")));
        let own = selected.strip_prefix(NAMED);
        let own = own.filter(|own| self.connections.iter().all(|name| name != own));
        for name in self.connections.iter().map(String::as_str).chain(own) {
            choices.push((format!("{NAMED}{name}"), Text::from(name)));
        }
        let choices = choices.into_iter();
        choices
            .map(|(value, label)| {
                let is_selected = value == selected;
                (value, label, is_selected)
            })
            .collect()
    }
}

fn mapping_lines(mapping: &[Mapping]) -> String {
    let lines: Vec<String> = mapping.iter().map(mapping_line).collect();
    lines.join("\n")
}
