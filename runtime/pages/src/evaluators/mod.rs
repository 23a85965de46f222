//! Evaluators: the list, one evaluator with its versions, the gallery, the forms, trials, and the deletion. The API operations
//! make all changes.

mod definition;
pub(crate) mod delete;
pub(crate) mod editor;
mod figures;
pub(crate) mod judge;
pub(crate) mod list;
pub(crate) mod new;
pub(crate) mod one;
mod scores;
pub(crate) mod switch;
pub(crate) mod trial;
mod trial_results;
mod versions;

use perpend_domain::evaluation::{Evaluator, EvaluatorVersion, Pause};
use perpend_domain::ids::EvaluatorId;
use perpend_domain::slots::CONNECTION_REASONS;
use perpend_http_kit::problem::Problem;
use perpend_views::{EvaluatorPauseSummary, Text, decode_segment};
use serde::Deserialize;

use crate::request::viewer::Viewer;
use crate::rules::rule::end_condition;
use crate::state::App;

/// The path of an evaluator.
#[derive(Debug, Deserialize)]
pub(crate) struct EvaluatorPath {
    evaluator: String,
}

impl EvaluatorPath {
    /// The evaluator with its newest version.
    pub(crate) async fn find(&self, app: &App, viewer: &Viewer) -> Result<Evaluator, Problem> {
        let missing = || Problem::not_found("evaluator");
        let id = EvaluatorId::new(decode_segment(&self.evaluator)).map_err(|_| missing())?;
        app.store.catalog.evaluator(&viewer.project, &id).await?.ok_or_else(missing)
    }
}

/// `judge`, `code` or `plug-in`.
pub(crate) fn kind(version: &EvaluatorVersion) -> &'static str {
    match (version.is_judge(), version.runs_source()) {
        (true, _) => "judge",
        (false, true) => "code",
        (false, false) => "plug-in",
    }
}

/// `vendor/name version · function`.
fn implementation(version: &EvaluatorVersion) -> Text {
    let EvaluatorVersion { plugin_name, plugin_version, plugin_evaluator, .. } = version;
    Text::from(format!("{plugin_name} {plugin_version} · {plugin_evaluator}"))
}

fn pause_summary(pause: &Pause, viewer: &Viewer) -> EvaluatorPauseSummary {
    let is_of_connection = CONNECTION_REASONS.contains(&pause.reason.as_str());
    EvaluatorPauseSummary {
        reason: Text::from(pause.reason.as_str()),
        message: Text::from(pause.message.as_str()),
        since: pause.at,
        end_condition: end_condition(pause),
        connections_href: is_of_connection
            .then(|| format!("{}/settings/connections", viewer.base())),
    }
}
