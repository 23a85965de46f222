//! `GET P/evaluators/new`: the gallery of source code, presets of judges, and functions of plug-ins.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_catalog::Plugin;
use perpend_domain::evaluation::{JUDGE_EVALUATOR, JUDGES, SOURCE_EVALUATOR};
use perpend_domain::plugin::EvaluatorInfo;
use perpend_http_kit::problem::Problem;
use perpend_views::{EvaluatorGalleryPage, GalleryEntry, GalleryGroup, Section, Text, with_query};
use serde::Deserialize;
use serde_json::{Value, json};

use super::editor::code::LANGUAGES;
use super::editor::schema::ConfigSchema;
use crate::plugins::list::description;
use crate::plugins::one::evaluator_view;
use crate::request::operations::{call, parsed};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

const PRESETS: &str = "/api/v1/judge-presets";

/// Query parameters of the gallery.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GalleryParams {
    /// Only entries with these words are listed.
    q: String,
}

/// A preset of judges.
#[derive(Debug, Deserialize)]
pub(super) struct JudgePreset {
    pub(super) name: String,
    pub(super) title: String,
    description: String,
    variables: Vec<String>,
    pub(super) definition: PresetDefinition,
}

/// The body of a request that creates a preset.
#[derive(Debug, Deserialize)]
pub(super) struct PresetDefinition {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) evaluator: String,
    pub(super) config: Value,
}

/// The presets of judges.
pub(super) async fn presets(app: &App, viewer: &Viewer) -> Result<Vec<JudgePreset>, Problem> {
    #[derive(Deserialize)]
    struct Presets {
        data: Vec<JudgePreset>,
    }
    let listed = call(app, viewer, (Method::GET, PRESETS), &json!({})).await?;
    parsed::<Presets>(listed).map(|presets| presets.data)
}

/// `GET P/evaluators/new`
pub(crate) async fn gallery_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<GalleryParams>,
) -> Result<Response, Problem> {
    let mut plugins = app.store.catalog.plugins(&viewer.project).await?;
    plugins.sort_by(Plugin::by_name_and_newest);
    plugins.dedup_by(|older, newer| older.info.name == newer.info.name);
    // The plug-ins of the project come first.
    plugins.sort_by_key(|plugin| plugin.owner.is_none());
    let base = viewer.base();
    let presets = presets(&app, &viewer).await?;
    let own = [code_group(&base), preset_group(&base, &presets)];
    let groups = own.into_iter().chain(plugins.iter().map(|plugin| plugin_group(&base, plugin)));
    let words: Vec<String> = params.q.split_whitespace().map(str::to_lowercase).collect();
    let groups = groups.filter_map(|mut group| {
        let title = group.title.raw().to_lowercase();
        group.entries.retain(|entry| has_words(entry, &title, &words));
        (!group.entries.is_empty()).then_some(group)
    });
    let view = EvaluatorGalleryPage {
        shell: viewer.shell(Section::Evaluators),
        groups: groups.collect(),
        words: params.q,
    };
    page(StatusCode::OK, &view)
}

fn has_words(entry: &GalleryEntry, group: &str, words: &[String]) -> bool {
    let description = entry.description.as_ref().map(Text::raw).unwrap_or_default();
    let text = format!("{group} {} {} {description}", entry.title.raw(), entry.id.raw());
    let text = text.to_lowercase();
    words.iter().all(|word| text.contains(word.as_str()))
}

fn code_group(base: &str) -> GalleryGroup {
    let entries = LANGUAGES.iter().map(|language| GalleryEntry {
        title: Text::from(language.label),
        id: Text::from(language.id),
        description: Some(Text::from(format!(
            "A function evaluate(ctx) in {} that returns scores.",
            language.label
        ))),
        facts: Vec::new(),
        settings: Vec::new(),
        example: Text::lines(language.skeleton),
        href: with_query(
            &format!("{base}/evaluators/new/code"),
            &[("language", language.id.to_owned())],
        ),
    });
    GalleryGroup {
        title: Text::from("Source code"),
        description: Some(Text::from(
            "Runs in a sandbox without network and files, like any plug-in.",
        )),
        entries: entries.collect(),
    }
}

fn preset_group(base: &str, presets: &[JudgePreset]) -> GalleryGroup {
    let new = GalleryEntry {
        title: Text::from("Judge with a prompt of its own"),
        id: Text::from("judge"),
        description: None,
        facts: Vec::new(),
        settings: Vec::new(),
        example: Text::from("Is this answer polite? {{output}}"),
        href: format!("{base}/evaluators/new/judge"),
    };
    let presets = presets.iter().map(|preset| {
        let own = &preset.definition;
        GalleryEntry {
            title: Text::from(preset.title.as_str()),
            id: Text::from(preset.name.as_str()),
            description: description(&preset.description),
            facts: vec![("Variables", Text::from(preset.variables.join(", ")))],
            settings: Vec::new(),
            example: Text::lines(pretty(&own.config)),
            href: with_query(
                &format!("{base}/evaluators/new/judge"),
                &[("preset", preset.name.clone())],
            ),
        }
    });
    GalleryGroup {
        title: Text::from("Judges"),
        description: Some(Text::from(
            "A language model answers a question about the target. Needs a connection to a model provider.",
        )),
        entries: std::iter::once(new).chain(presets).collect(),
    }
}

/// The functions of a plug-in, except those with forms of their own.
fn plugin_group(base: &str, plugin: &Plugin) -> GalleryGroup {
    let info = &plugin.info;
    let origin = match plugin.owner {
        Some(_) => "plug-in of this project",
        None => "plug-in of this server",
    };
    let has_own_form =
        |id: &str| id == SOURCE_EVALUATOR || (id == JUDGE_EVALUATOR && info.name == JUDGES);
    let functions = info
        .evaluators
        .iter()
        .filter(|function| plugin.owner.is_some() || !has_own_form(&function.id));
    GalleryGroup {
        title: Text::from(format!("{} {}", info.name, info.version)),
        description: Some(Text::from(match info.description.trim() {
            "" => format!("A {origin}."),
            text => format!("{text} ({origin})"),
        })),
        entries: functions.map(|function| plugin_entry(base, plugin, function)).collect(),
    }
}

fn plugin_entry(base: &str, plugin: &Plugin, function: &EvaluatorInfo) -> GalleryEntry {
    let about = evaluator_view(function);
    let schema = ConfigSchema::parse(&function.config_schema);
    let reference = match plugin.owner {
        Some(_) => plugin.digest.to_string(),
        None => plugin.info.name.clone(),
    };
    let example = json!({
        "type": "plugin",
        "name": function.id,
        "plugin": plugin.info.name,
        "evaluator": function.id,
        "config": schema.example(),
        "grants": plugin.info.required(function).names(),
    });
    let mut facts = vec![("Reads", about.needs), ("Scores", about.scores)];
    facts.extend(about.slots.map(|slots| ("Models", slots)));
    let parameters = [("plugin", reference), ("function", function.id.clone())];
    GalleryEntry {
        title: about.title,
        id: about.id,
        description: about.description,
        facts,
        settings: schema.summary(),
        example: Text::lines(pretty(&example)),
        href: with_query(&format!("{base}/evaluators/new/plugin"), &parameters),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
