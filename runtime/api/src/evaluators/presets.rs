//! Presets of judges, in the form of the creation of evaluators.

use axum::extract::State;
use perpend_api_types::preset::{JudgePreset, JudgePresets, PresetDefinition};
use perpend_domain::access::Permission::EvaluatorRead;
use perpend_domain::bundle::Preset;
use perpend_domain::evaluation::JUDGES;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;

use crate::state::{App, Routes};

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listJudgePresets",
        "/api/v1/judge-presets",
        "List the presets of judges",
        EvaluatorRead,
    );
    routes.add(list, list_presets);
}

async fn list_presets(State(app): State<App>, _: Act) -> Result<Answer<JudgePresets>, Problem> {
    let presets = app.bundle.presets().map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "a preset cannot be read");
        Problem::internal()
    })?;
    let data = presets.into_iter().map(preset_view).collect();
    Ok(Answer(JudgePresets { data }))
}

fn preset_view(preset: Preset) -> JudgePreset {
    JudgePreset {
        direction: preset.direction,
        variables: preset.variables,
        definition: PresetDefinition {
            kind: "plugin".to_owned(),
            name: preset.name.clone(),
            description: preset.description.clone(),
            plugin: JUDGES.to_owned(),
            evaluator: preset.evaluator,
            config: preset.config,
            grants: vec!["model".to_owned()],
        },
        name: preset.name,
        title: preset.title,
        description: preset.description,
    }
}
