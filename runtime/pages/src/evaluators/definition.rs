//! The definition of a version as a view.

use std::collections::BTreeSet;

use perpend_domain::access::Permission::{ConnectionRead, PluginRead};
use perpend_domain::evaluation::EvaluatorVersion;
use perpend_domain::slots::{ModelLimits, Slot};
use perpend_http_kit::problem::Problem;
use perpend_views::{DefinitionContent, EvaluatorDefinition, Html, Text, count, dollars, plural};
use serde::Deserialize;
use serde_json::Value;

use super::implementation;
use crate::connections::usage::connection_href;
use crate::request::viewer::Viewer;
use crate::rules::definition::mapping_line;
use crate::state::App;

/// Lines of source code on the page.
const MAX_LINES: usize = 2_000;

/// A message of a judge.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) role: String,
    pub(super) content: String,
}

/// The messages of a judge.
pub(super) fn messages(config: &Value) -> Vec<Message> {
    Vec::deserialize(&config["prompt"]).unwrap_or_default()
}

/// The name of a language.
fn language_name(language: &str) -> &'static str {
    match language {
        "PYTHON" => "Python",
        "TYPESCRIPT" => "TypeScript",
        _ => "JavaScript",
    }
}

fn content(version: &EvaluatorVersion) -> DefinitionContent {
    if version.is_judge() {
        let messages = messages(&version.config).into_iter();
        return DefinitionContent::Judge {
            messages: messages
                .map(|message| (Text::from(message.role), Text::lines(message.content)))
                .collect(),
            output: output(&version.config),
        };
    }
    if let Some((language, source)) = version.source() {
        let n_omitted = source.lines().count().saturating_sub(MAX_LINES) as u64;
        return DefinitionContent::Code {
            language: language_name(language),
            lines: source.lines().take(MAX_LINES).map(Text::lines).collect(),
            omitted: (0 < n_omitted).then(|| format!("{} not shown", plural(n_omitted, "line"))),
        };
    }
    let config = serde_json::to_string_pretty(&version.config).unwrap_or_default();
    DefinitionContent::Plugin { config: Text::lines(config) }
}

/// Labels and values of the score of a judge, and the other members of its configuration.
fn output(config: &Value) -> Vec<(&'static str, Text)> {
    let output = &config["output"];
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(Text::from(text.as_str())),
        Value::Array(items) => {
            let items = items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            Some(Text::from(items.collect::<Vec<_>>().join(", ")))
        }
        other => Some(Text::from(other.to_string())),
    };
    let score = &output["score"];
    let members = [
        ("Data type", &output["dataType"]),
        ("Least value", &score["minValue"]),
        ("Greatest value", &score["maxValue"]),
        ("Categories", &score["categories"]),
        ("Several categories", &score["shouldAllowMultipleMatches"]),
        ("Instructions for the score", &score["description"]),
        ("Instructions for the reasoning", &output["reasoning"]["description"]),
        ("Fence around values", &config["fence"]),
        ("Prompt", &config["prompt_ref"]),
    ];
    members.into_iter().filter_map(|(label, value)| Some((label, text(value)?))).collect()
}

/// The model and the limits of a slot.
fn slot_text(slot: &Slot) -> String {
    let model = slot.model.as_ref().map_or_else(
        || "default evaluation model of the project".to_owned(),
        |model| format!("{} (connection {})", model.model, model.provider),
    );
    let ModelLimits { max_input_tokens, max_output_tokens, timeout_ms, reasks, max_usd } =
        slot.limits;
    let mut parts = vec![format!("{}: {model}", slot.name)];
    if let Some(params) = slot.model.as_ref().map(|model| &model.params)
        && !params.is_empty()
    {
        parts.push(Value::Object(params.clone()).to_string());
    }
    let tokens = [("input", max_input_tokens), ("output", max_output_tokens)];
    let tokens = tokens.into_iter().filter_map(|(side, n)| Some((side, n?)));
    parts.extend(tokens.map(|(side, n)| format!("at most {} {side} tokens", count(n.into()))));
    parts.push(format!("timeout {} ms", count(timeout_ms.into())));
    parts.push(plural(reasks.into(), "repeat") + " of an invalid reply");
    parts.extend(max_usd.map(|usd| format!("at most {} per evaluation", dollars(usd))));
    parts.join("; ")
}

/// Names and URLs of the connections of the models of a version.
pub(super) async fn connections(
    app: &App,
    viewer: &Viewer,
    version: &EvaluatorVersion,
) -> Result<Vec<(Text, String)>, Problem> {
    if version.slots.is_empty() || !viewer.may(ConnectionRead) {
        return Ok(Vec::new());
    }
    let (catalog, project) = (&app.store.catalog, &viewer.project);
    let default = catalog.default_model(project).await?;
    let models = version.slots.iter().filter_map(|slot| slot.model.as_ref().or(default.as_ref()));
    let providers: BTreeSet<&str> = models.map(|model| model.provider.as_str()).collect();
    let mut found = Vec::with_capacity(providers.len());
    for provider in providers {
        if let Some(connection) = catalog.connection(project, provider).await? {
            found.push((Text::from(provider), connection_href(viewer, &connection.id)));
        }
    }
    Ok(found)
}

pub(super) async fn view(
    app: &App,
    viewer: &Viewer,
    version: &EvaluatorVersion,
    newest: u32,
) -> Result<EvaluatorDefinition, Problem> {
    let text = |text: String| Html::from(Text::from(text));
    let mut facts = vec![("Function", Html::from(implementation(version)))];
    facts.extend(version.slots.iter().map(|slot| ("Model", text(slot_text(slot)))));
    let grants = version.grants.names();
    if !grants.is_empty() {
        facts.push(("Capabilities", text(grants.join(", "))));
    }
    let mapping = version.mapping.iter();
    Ok(EvaluatorDefinition {
        number: version.number,
        is_newest: version.number == newest,
        created_at: version.created_at,
        content: content(version),
        facts,
        mapping: mapping.map(|entry| Text::from(mapping_line(entry))).collect(),
        plugin_href: viewer
            .may(PluginRead)
            .then(|| format!("{}/plugins/{}", viewer.base(), version.plugin)),
        connections: connections(app, viewer, version).await?,
        fingerprint: version.fingerprint.to_string(),
    })
}
