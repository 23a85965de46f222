//! The fields of the editor of a judge, and the definition that they mean.

use perpend_domain::evaluation::{Evaluator, EvaluatorVersion, JUDGE_EVALUATOR, JUDGES};
use perpend_domain::slots::{ModelChoice, ModelLimits, Slot};
use perpend_http_kit::extract::Params;
use perpend_views::{JudgeFields, JudgeMessage};
use serde_json::{Map, Value, json};

use super::faults::{Faults, FieldProblems, number_text};
use super::output;
use crate::request::forms::as_submitted;
use crate::rules::definition::mapping_line;
use crate::rules::fields::mapping as parsed_mapping;

/// Model slots of a judge.
const SLOTS: [&str; 5] = ["judge", "judge-2", "judge-3", "judge-4", "judge-5"];
/// Members of the configuration with fields of their own.
const OWN_MEMBERS: [&str; 8] = [
    "prompt",
    "fence",
    "output",
    "choice_scores",
    "chain_of_thought",
    "questions",
    "panel",
    "temperature",
];
/// Evaluator of the plug-in for several questions.
const QUESTIONS: &str = "questions";
/// The default evaluation model in a line of further models.
const DEFAULT: &str = "default";

/// The definition of an evaluator: the members of a version.
#[derive(Clone, Debug)]
pub(super) struct JudgeDefinition {
    evaluator: String,
    config: Map<String, Value>,
    slots: Vec<Slot>,
    grants: Vec<String>,
    /// Absent without an entry.
    mapping: Option<Value>,
}

impl JudgeDefinition {
    /// The definition of a stored version.
    pub(super) fn of_version(version: &EvaluatorVersion) -> Self {
        let grants = version.grants.names().into_iter();
        Self {
            evaluator: version.plugin_evaluator.clone(),
            config: version.config.as_object().cloned().unwrap_or_default(),
            slots: version.slots.clone(),
            grants: grants.map(str::to_owned).collect(),
            mapping: (!version.mapping.is_empty()).then(|| json!(version.mapping)),
        }
    }

    /// The definition of a preset.
    pub(super) fn of_preset(evaluator: &str, config: &Value) -> Self {
        Self {
            evaluator: evaluator.to_owned(),
            config: config.as_object().cloned().unwrap_or_default(),
            slots: Vec::new(),
            grants: vec!["model".to_owned()],
            mapping: None,
        }
    }

    /// An example to begin with.
    pub(super) fn example() -> Self {
        let config = json!({
            "prompt": "Is this answer polite?\n\n{{output}}",
            "output": { "dataType": "BOOLEAN" },
        });
        Self::of_preset(JUDGE_EVALUATOR, &config)
    }

    /// A definition with the same models that is valid whatever the mapping is.
    pub(super) fn with_input_as_prompt(&self) -> Self {
        let config = json!({
            "prompt": "{{input}}",
            "output": { "dataType": "BOOLEAN", "score": {} },
        });
        let slots = self.slots.iter().take(1).cloned().collect();
        Self { slots, ..Self::of_preset(JUDGE_EVALUATOR, &config) }
    }

    /// The members of the request that saves it.
    pub(super) fn body(&self) -> Value {
        let mut body = json!({
            "type": "plugin",
            "plugin": JUDGES,
            "evaluator": self.evaluator,
            "config": self.config,
            "slots": self.slots,
            "grants": self.grants,
        });
        if let Some(mapping) = &self.mapping {
            body["variableMapping"] = mapping.clone();
        }
        body
    }

    /// Replaces each value that is equal in `unchanged`, the definition of the unchanged fields, by the stored one: a value
    /// can have several forms, such as a prompt as one text, and another form has another fingerprint.
    fn keep(&mut self, unchanged: &Self, stored: Self) {
        if self.evaluator != stored.evaluator {
            return;
        }
        let entered = std::mem::take(&mut self.config);
        // The order of members counts, for example that of choices.
        let text = |config: &Map<String, Value>, name: &str| config.get(name).map(Value::to_string);
        let is_same = |name: &str| text(&entered, name) == text(&unchanged.config, name);
        let kept = stored.config.iter().filter(|(name, _)| is_same(name));
        let changed = entered.iter().filter(|(name, _)| !is_same(name));
        let config = kept.chain(changed).map(|(name, value)| (name.clone(), value.clone()));
        self.config = config.collect();
        if self.slots == unchanged.slots {
            self.slots = stored.slots;
        }
        if self.mapping == unchanged.mapping {
            self.mapping = stored.mapping;
        }
    }

    /// Its members for a comparison: those of the configuration one by one, without defaults.
    pub(super) fn members(&self) -> Value {
        let config = self.config.iter().filter(|(name, value)| !is_default(name, value));
        let mut members: Map<String, Value> =
            config.map(|(name, value)| (name.clone(), value.clone())).collect();
        members.insert("prompt".to_owned(), prompt_text(self.config.get("prompt")));
        members.insert("model".to_owned(), json!(self.slots));
        members.insert("mapping".to_owned(), json!(self.mapping));
        Value::Object(members)
    }
}

/// The prompt as one text.
fn prompt_text(prompt: Option<&Value>) -> Value {
    let messages = messages(prompt).into_iter();
    let messages = messages.map(|message| format!("{}: {}", message.role, message.content));
    json!(messages.collect::<Vec<_>>().join("\n\n"))
}

/// The messages of a prompt; at least one.
fn messages(prompt: Option<&Value>) -> Vec<JudgeMessage> {
    let of_user =
        |content: &str| JudgeMessage { role: "user".to_owned(), content: as_submitted(content) };
    match prompt {
        Some(Value::Array(all)) if !all.is_empty() => {
            let message = |message: &Value| JudgeMessage {
                role: message["role"].as_str().unwrap_or_default().to_owned(),
                content: as_submitted(message["content"].as_str().unwrap_or_default()),
            };
            all.iter().map(message).collect()
        }
        Some(Value::String(text)) => vec![of_user(text)],
        _ => vec![of_user("")],
    }
}

/// Whether a member has its default.
fn is_default(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => *value == ["fence", "chain_of_thought"].contains(&name),
        Value::Array(all) => all.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => name == "large" && text == "fail",
        Value::Number(_) => false,
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The fields of a stored evaluator.
pub(super) fn fields_of(evaluator: &Evaluator) -> JudgeFields {
    let name = as_submitted(&evaluator.name);
    let description = as_submitted(evaluator.description.as_deref().unwrap_or_default());
    JudgeFields {
        version: evaluator.version.number.to_string(),
        name: name.clone(),
        description: description.clone(),
        stored_name: name,
        stored_description: description,
        ..fields_of_version(&evaluator.version)
    }
}

/// The fields of a stored version, without name and description.
fn fields_of_version(version: &EvaluatorVersion) -> JudgeFields {
    let mapping: Vec<String> = version.mapping.iter().map(mapping_line).collect();
    JudgeFields {
        mapping: mapping.join("\n"),
        ..fields_of_definition(&JudgeDefinition::of_version(version))
    }
}

/// The fields of a definition, without name and mapping.
pub(super) fn fields_of_definition(definition: &JudgeDefinition) -> JudgeFields {
    let config = &definition.config;
    let member = |name: &str| config.get(name).unwrap_or(&Value::Null);
    let rest = config
        .iter()
        .filter(|(name, value)| !OWN_MEMBERS.contains(&name.as_str()) && !is_default(name, value));
    let rest: Map<String, Value> =
        rest.map(|(name, value)| (name.clone(), value.clone())).collect();
    let own = definition.slots.iter().find(|slot| slot.name == SLOTS[0]);
    let model = own.and_then(|slot| slot.model.clone());
    let params = model.as_ref().map(|model| &model.params).filter(|params| !params.is_empty());
    let limits = own.map(|slot| slot.limits).unwrap_or_default();
    let panel = member("panel");
    let mut fields = JudgeFields {
        messages: messages(config.get("prompt")),
        params: params.map(|params| pretty(&json!(params))).unwrap_or_default(),
        temperature: number_text(member("temperature")),
        max_input_tokens: shown(limits.max_input_tokens),
        max_output_tokens: shown(limits.max_output_tokens),
        timeout_ms: limits.timeout_ms.to_string(),
        reasks: limits.reasks.to_string(),
        max_usd: shown(limits.max_usd),
        others: other_models(definition),
        repeats: panel["repeats"].as_u64().unwrap_or(1).to_string(),
        reducer: panel["reducer"].as_str().unwrap_or("mode").to_owned(),
        is_fenced: *member("fence") != false,
        config: if rest.is_empty() { String::new() } else { pretty(&Value::Object(rest)) },
        ..JudgeFields::default()
    };
    if let Some(model) = model {
        (fields.connection, fields.model) = (model.provider, model.model);
    }
    output::fill(&mut fields, config);
    fields
}

/// The models of the votes after the first one, one line each.
fn other_models(definition: &JudgeDefinition) -> String {
    let panel = definition.config.get("panel").unwrap_or(&Value::Null);
    let n_models = panel["models"].as_u64().unwrap_or(1);
    // A slot outside of the panel has no vote.
    let of_panel = SLOTS.iter().zip(0_u64..).take_while(|(_, at)| *at < n_models).skip(1);
    let others = of_panel.map(|(name, _)| {
        let slot = definition.slots.iter().find(|slot| slot.name == *name);
        match slot.and_then(|slot| slot.model.as_ref()) {
            Some(model) => format!("{} {}", model.provider, model.model),
            None => DEFAULT.to_owned(),
        }
    });
    others.collect::<Vec<_>>().join("\n")
}

/// The submitted fields.
pub(super) fn fields_of_params(params: &Params) -> JudgeFields {
    let raw = |name: &str| as_submitted(params.raw(name).unwrap_or_default());
    let text = |name: &str| raw(name).trim().to_owned();
    let contents = params.raw_all("content").into_iter();
    let messages = params.raw_all("role").into_iter().zip(contents);
    let messages = messages.map(|(role, content)| JudgeMessage {
        role: role.to_owned(),
        content: as_submitted(content),
    });
    let mut messages: Vec<JudgeMessage> = messages.collect();
    if messages.is_empty() {
        messages.push(JudgeMessage { role: "user".to_owned(), content: String::new() });
    }
    JudgeFields {
        version: text("version"),
        name: text("name"),
        description: raw("description"),
        stored_name: raw("stored_name"),
        stored_description: raw("stored_description"),
        messages,
        mapping: text("mapping"),
        output: text("output"),
        min: text("min"),
        max: text("max"),
        categories: text("categories"),
        is_multiple: params.text("multiple").is_some(),
        questions: text("questions"),
        score_description: text("score_description"),
        reasoning_description: text("reasoning_description"),
        has_reasons: params.text("reasons").is_some(),
        connection: raw("connection"),
        model: text("model"),
        params: text("params"),
        temperature: text("temperature"),
        max_input_tokens: text("max_input_tokens"),
        max_output_tokens: text("max_output_tokens"),
        timeout_ms: text("timeout_ms"),
        reasks: text("reasks"),
        max_usd: text("max_usd"),
        others: text("others"),
        repeats: text("repeats"),
        reducer: text("reducer"),
        is_fenced: params.text("fence").is_some(),
        config: text("config"),
    }
}

/// The definition that the fields mean. Values without a field, and those of unchanged fields, are taken from `stored`.
pub(super) fn definition(
    fields: &JudgeFields,
    stored: Option<&EvaluatorVersion>,
) -> Result<JudgeDefinition, FieldProblems> {
    let mut definition = of_fields(fields, stored)?;
    if let Some(version) = stored
        && let Ok(unchanged) = of_fields(&fields_of_version(version), stored)
    {
        definition.keep(&unchanged, JudgeDefinition::of_version(version));
    }
    Ok(definition)
}

/// The definition that the fields mean, each value in the form of its field.
fn of_fields(
    fields: &JudgeFields,
    stored: Option<&EvaluatorVersion>,
) -> Result<JudgeDefinition, FieldProblems> {
    let mut faults = Faults::default();
    let mut config = faults.object("config", &fields.config);
    for name in OWN_MEMBERS.iter().filter(|name| config.contains_key(**name)) {
        faults.add("config", format!("must not contain `{name}`, which has a field of its own"));
    }
    // `prompt_ref` names the managed prompt that the messages were copied from. It is removed when they change.
    if stored.is_some_and(|stored| messages(stored.config.get("prompt")) != fields.messages) {
        config.shift_remove("prompt_ref");
    }
    let message =
        |message: &JudgeMessage| json!({ "role": message.role, "content": message.content });
    let prompt: Value = fields.messages.iter().map(message).collect();
    config.insert("prompt".to_owned(), prompt);
    config.insert("fence".to_owned(), json!(fields.is_fenced));
    if let Some(temperature) = faults.number::<f64>("temperature", &fields.temperature) {
        config.insert("temperature".to_owned(), json!(temperature));
    }
    let slots = slots(fields, stored, &mut faults);
    let repeats = faults.number::<u32>("repeats", &fields.repeats).unwrap_or(1);
    let panel = json!({ "models": slots.len(), "repeats": repeats, "reducer": fields.reducer });
    config.insert("panel".to_owned(), panel);
    output::insert(fields, &mut config, &mut faults);
    let mapping = parsed_mapping(&fields.mapping).unwrap_or_else(|problem| {
        faults.0.push(("mapping", problem));
        None
    });
    if !faults.0.is_empty() {
        return Err(faults.0);
    }
    let large = config.get("large").and_then(Value::as_str).unwrap_or_default();
    let needs_trace = ["digest", "explore"].contains(&large)
        || stored.is_some_and(|stored| stored.grants.trace_reader);
    let mut grants = vec!["model".to_owned()];
    if needs_trace {
        grants.push("trace".to_owned());
    }
    let evaluator = if fields.output == output::QUESTIONS { QUESTIONS } else { JUDGE_EVALUATOR };
    Ok(JudgeDefinition {
        evaluator: evaluator.to_owned(),
        config,
        slots,
        grants,
        mapping: mapping.map(|mapping| json!(mapping)),
    })
}

/// The slots of the panel.
fn slots(
    fields: &JudgeFields,
    stored: Option<&EvaluatorVersion>,
    faults: &mut Faults,
) -> Vec<Slot> {
    let defaults = ModelLimits::default();
    let limits = ModelLimits {
        max_input_tokens: faults.number("max_input_tokens", &fields.max_input_tokens),
        max_output_tokens: faults.number("max_output_tokens", &fields.max_output_tokens),
        timeout_ms: faults.number("timeout_ms", &fields.timeout_ms).unwrap_or(defaults.timeout_ms),
        reasks: faults.number("reasks", &fields.reasks).unwrap_or(defaults.reasks),
        max_usd: faults.number("max_usd", &fields.max_usd),
    };
    let stored_slot =
        |name: &str| stored.and_then(|version| version.slots.iter().find(|own| own.name == name));
    let limits_before = stored_slot(SLOTS[0]).map(|slot| slot.limits).unwrap_or_default();
    let model = model(fields, faults);
    let mut slots = vec![Slot { name: SLOTS[0].to_owned(), model, limits }];
    let lines = fields.others.lines().map(str::trim).filter(|line| !line.is_empty());
    for (at, line) in lines.enumerate() {
        let Some(name) = SLOTS.get(at + 1) else {
            faults.add("others", format!("must have at most {} lines", SLOTS.len() - 1));
            break;
        };
        let model = match line.rsplit_once(char::is_whitespace) {
            _ if line == DEFAULT => None,
            Some((provider, model)) => Some((provider.trim_end(), model)),
            None => {
                let message = format!(
                    "a line must have a connection and a model, or be `{DEFAULT}`; got `{line}`"
                );
                faults.add("others", message);
                continue;
            }
        };
        // Parameters of these models, and limits that differ from those of the first one, have no field.
        let own = stored_slot(name);
        let kept = own.and_then(|slot| slot.model.clone());
        let kept = kept.filter(|own| model == Some((own.provider.as_str(), own.model.as_str())));
        let model = kept.or_else(|| {
            model.map(|(provider, model)| ModelChoice {
                provider: provider.to_owned(),
                model: model.to_owned(),
                params: Map::new(),
            })
        });
        let own_limits = own.map(|slot| slot.limits).filter(|own| *own != limits_before);
        let limits = own_limits.unwrap_or(limits);
        slots.push(Slot { name: (*name).to_owned(), model, limits });
    }
    slots
}

/// The model of the first vote; absent for the default evaluation model.
fn model(fields: &JudgeFields, faults: &mut Faults) -> Option<ModelChoice> {
    let params = faults.object("params", &fields.params);
    if fields.connection.is_empty() {
        if !fields.model.is_empty() {
            faults.add("model", "must be empty with the default evaluation model");
        }
        if !params.is_empty() {
            faults.add("params", "must be empty with the default evaluation model");
        }
        return None;
    }
    if fields.model.is_empty() {
        faults.add("model", "is required with a connection");
    }
    let (provider, model) = (fields.connection.clone(), fields.model.clone());
    Some(ModelChoice { provider, model, params })
}

#[cfg(test)]
mod tests {
    use perpend_domain::ids::EvaluatorVersionId;
    use perpend_domain::plugin::{Digest, Grants};
    use perpend_domain::time::Timestamp;

    use super::*;

    fn fields(config: &Value) -> JudgeFields {
        fields_of_definition(&JudgeDefinition::of_preset(JUDGE_EVALUATOR, config))
    }

    #[test]
    fn the_fields_of_a_configuration_mean_the_same_configuration() {
        let config = json!({
            "prompt": [{ "role": "system", "content": "Be strict." }, { "role": "user", "content": "{{output}}" }],
            "choice_scores": { "yes": 1, "partly": 0.5, "no": 0 },
            "chain_of_thought": false,
            "fence": false,
            "temperature": 0.5,
            "panel": { "models": 2, "repeats": 3, "reducer": "mean" },
            "trusted": ["criteria"],
        });
        let mut stored = config.clone();
        stored["large"] = json!("fail");
        let fields = fields(&stored);
        assert_eq!(fields.others, "default");
        assert!(fields.config.contains("criteria") && !fields.config.contains("large"));
        let definition = definition(&fields, None).unwrap();
        assert_eq!(definition.slots.len(), 2);
        let mut found = definition.body()["config"].clone();
        for (name, value) in config.as_object().unwrap() {
            assert_eq!(&found[name], value, "{name}");
            found.as_object_mut().unwrap().remove(name);
        }
        assert_eq!(found, json!({}));
    }

    fn version(config: Value, slots: Vec<Slot>) -> EvaluatorVersion {
        EvaluatorVersion {
            id: EvaluatorVersionId::new("v1").unwrap(),
            number: 1,
            plugin: Digest::of(b"judge"),
            plugin_name: JUDGES.to_owned(),
            plugin_version: "1.0.0".to_owned(),
            plugin_evaluator: JUDGE_EVALUATOR.to_owned(),
            config,
            mapping: Vec::new(),
            grants: Grants::NONE,
            slots,
            fingerprint: Digest::of(b"version"),
            created_at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn unchanged_members_keep_their_stored_form() {
        let config = json!({
            "prompt": "Rate this.\r\n{{output}}",
            "output": { "dataType": "CATEGORICAL", "score": { "categories": ["a\nb", "c"] } },
            "large": "fail",
        });
        let stored = version(config.clone(), Vec::new());
        let mut fields = fields_of_version(&stored);
        let same = definition(&fields, Some(&stored)).unwrap();
        assert_eq!(Value::Object(same.config), config);
        fields.temperature = "0.5".to_owned();
        let changed = definition(&fields, Some(&stored)).unwrap();
        let mut expected = config;
        expected["temperature"] = json!(0.5);
        assert_eq!(Value::Object(changed.config), expected);
        fields.messages[0].content = "{{output}}".to_owned();
        let changed = definition(&fields, Some(&stored)).unwrap();
        assert_eq!(changed.config["prompt"][0]["content"], "{{output}}");
    }

    #[test]
    fn changed_limits_reach_the_models_that_had_the_same_ones() {
        let limits = |reasks| ModelLimits { reasks, ..ModelLimits::default() };
        let slot = |(name, reasks): (&str, u32)| Slot {
            name: name.to_owned(),
            model: None,
            limits: limits(reasks),
        };
        let slots = [("judge", 1), ("judge-2", 1), ("judge-3", 4)].map(slot);
        let config = json!({
            "prompt": "{{output}}", "output": { "dataType": "BOOLEAN" }, "panel": { "models": 3 },
        });
        let stored = version(config, slots.to_vec());
        let mut fields = fields_of_definition(&JudgeDefinition::of_version(&stored));
        fields.reasks = "3".to_owned();
        let changed = definition(&fields, Some(&stored)).unwrap();
        let reasks: Vec<u32> = changed.slots.iter().map(|slot| slot.limits.reasks).collect();
        assert_eq!(reasks, [3, 3, 4]);
    }

    #[test]
    fn slots_outside_of_the_panel_are_no_voters() {
        let config = json!({ "prompt": "{{output}}", "output": { "dataType": "BOOLEAN" } });
        let slots = SLOTS.map(|name| Slot {
            name: name.to_owned(),
            model: None,
            limits: ModelLimits::default(),
        });
        let mut stored = JudgeDefinition {
            slots: slots.to_vec(),
            ..JudgeDefinition::of_preset(JUDGE_EVALUATOR, &config)
        };
        assert_eq!(fields_of_definition(&stored).others, "");
        stored.config.insert("panel".to_owned(), json!({ "models": 3 }));
        assert_eq!(fields_of_definition(&stored).others, "default\ndefault");
    }

    #[test]
    fn line_breaks_of_a_description_are_kept() {
        let fields =
            fields_of_params(&Params::parse("description=a%0D%0Ab&stored_description=a%0Ab"));
        assert_eq!(fields.description, "a\nb");
        assert_eq!(fields.description, fields.stored_description);
    }

    #[test]
    fn wrong_values_are_at_their_fields() {
        let mut fields =
            fields(&json!({ "prompt": "{{output}}", "output": { "dataType": "NUMERIC" } }));
        fields.min = "low".to_owned();
        fields.temperature = "hot".to_owned();
        fields.connection = "main".to_owned();
        fields.others = "alone".to_owned();
        fields.mapping = "output".to_owned();
        fields.config = r#"{"prompt": "x"}"#.to_owned();
        let problems = definition(&fields, None).unwrap_err();
        let names: Vec<&str> = problems.iter().map(|(field, _)| *field).collect();
        assert_eq!(names, ["config", "temperature", "model", "others", "min", "mapping"]);
    }
}
