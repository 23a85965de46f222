//! Scores of a target with their origins.

use std::collections::{BTreeSet, HashMap};

use perpend_domain::evaluation::Target;
use perpend_domain::ids::{EvaluatorVersionId, RuleId};
use perpend_domain::score::{Score, ScoreOrigin};
use perpend_http_kit::problem::Problem;
use perpend_views::{OriginView, ResourceLink, ScoreView, Text};

use crate::authors::author_names;
use crate::request::viewer::Viewer;
use crate::settings;
use crate::state::App;

/// Scores of the target.
pub(crate) async fn scores_about(
    app: &App,
    viewer: &Viewer,
    target: &Target,
) -> Result<Vec<Score>, Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    Ok(match target {
        Target::Session(id) => telemetry.scores_of_session(project, id).await?,
        Target::Run(id) => telemetry.scores_of_run(project, id).await?,
        Target::Trace(trace) => telemetry.scores_about(project, trace, None).await?,
        Target::Observation(trace, id) => telemetry.scores_about(project, trace, Some(id)).await?,
    })
}

/// Scores with their origins.
pub(crate) async fn score_views(
    app: &App,
    viewer: &Viewer,
    about: &[Score],
) -> Result<Vec<ScoreView>, Problem> {
    let origins = about.iter().filter_map(|score| score.written.origin.as_ref());
    let names = OriginNames::read(app, viewer, origins).await?;
    let authors: BTreeSet<&str> =
        about.iter().filter_map(|score| score.written.author_user_id.as_deref()).collect();
    let authors = author_names(app, viewer, authors).await?;
    let views = about.iter().map(|score| {
        let written = &score.written;
        let author = written.author_user_id.as_deref();
        ScoreView::new(&written.name, &written.value, written.source, written.timestamp)
            .id(written.id.as_str())
            .author(author.map(|id| authors.get(id).map_or(id, String::as_str)))
            .comment(written.comment.as_deref())
            .metadata(&written.metadata)
            .origin(written.origin.as_ref().map(|origin| names.origin(origin)))
    });
    Ok(views.collect())
}

/// Names of rules and evaluators in origins. Deleted ones are shown by their ids.
#[derive(Default)]
pub(crate) struct OriginNames {
    rules: HashMap<RuleId, String>,
    versions: HashMap<EvaluatorVersionId, Version>,
}

struct Version {
    evaluator: String,
    number: u32,
    plugin: String,
    settings: Vec<(Text, Text)>,
}

impl OriginNames {
    pub(crate) async fn read(
        app: &App,
        viewer: &Viewer,
        origins: impl Iterator<Item = &ScoreOrigin>,
    ) -> Result<Self, Problem> {
        let (store, project) = (&app.store, &viewer.project);
        let mut names = Self::default();
        for origin in origins {
            if !names.rules.contains_key(&origin.rule_id)
                && let Some(rule) = store.catalog.rule(project, &origin.rule_id).await?
            {
                names.rules.insert(rule.id, rule.name);
            }
            if names.versions.contains_key(&origin.evaluator_version_id) {
                continue;
            }
            let version =
                store.catalog.evaluator_version(project, &origin.evaluator_version_id).await?;
            let evaluator = store.catalog.evaluator(project, &origin.evaluator_id).await?;
            if let (Some((_, version)), Some(evaluator)) = (version, evaluator) {
                let plugin = format!(
                    "{} {} · {}",
                    version.plugin_name, version.plugin_version, version.plugin_evaluator
                );
                let found = Version {
                    evaluator: evaluator.name,
                    number: version.number,
                    plugin,
                    settings: settings::evaluator_settings(&version),
                };
                names.versions.insert(version.id, found);
            }
        }
        Ok(names)
    }

    pub(crate) fn origin(&self, origin: &ScoreOrigin) -> OriginView {
        let version = self.versions.get(&origin.evaluator_version_id);
        let [evaluator, rule] = [origin.evaluator_id.as_str(), origin.rule_id.as_str()];
        let deleted = |id| ResourceLink::deleted(format!("{id} (deleted)"));
        OriginView {
            evaluator: match version {
                Some(version) => ResourceLink::new(&version.evaluator, evaluator),
                None => deleted(evaluator),
            },
            version: version.map(|version| version.number),
            plugin: version.map(|version| Text::from(version.plugin.as_str())),
            settings: version.map_or_else(Vec::new, |version| version.settings.clone()),
            rule: match self.rules.get(&origin.rule_id) {
                Some(name) => ResourceLink::new(name, rule),
                None => deleted(rule),
            },
            fingerprint: origin.fingerprint.to_string(),
            execution: Text::from(origin.execution_id.as_str()),
            sampling: origin.inclusion_probability,
        }
    }
}
