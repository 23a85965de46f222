//! `GET P/evaluators`: the evaluators of the project, newest first.

use std::collections::{HashMap, HashSet};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use perpend_catalog::EvaluatorRule;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::Evaluator;
use perpend_domain::ids::EvaluatorId;
use perpend_domain::time::Timestamp;
use perpend_executions::RuleCost;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::scores::VersionScores;
use perpend_views::{
    ApiRequest, EvaluatorLine, EvaluatorsPage, ResourceLink, Section, Text, count, encode,
    evaluator_href,
};

use super::scores::{means, score_count};
use super::{implementation, kind, pause_summary};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::rules::list::cost_text;
use crate::setup;
use crate::state::App;

const WEEK_MS: i64 = 7 * 86_400_000;
/// Versions of an evaluator whose scores are counted, and scores counted of each.
const MAX_VERSIONS: u32 = 5;
const MAX_SCORES: u32 = 2_000;

/// Start of the last seven days.
pub(super) fn week(app: &App) -> Timestamp {
    app.web.clock.now().plus_millis(-WEEK_MS)
}

/// Rules and sums of the last seven days, by evaluator.
struct Figures {
    rules: HashMap<EvaluatorId, Vec<EvaluatorRule>>,
    scores: HashMap<EvaluatorId, Vec<Vec<VersionScores>>>,
    failed: HashMap<EvaluatorId, u64>,
    costs: HashMap<String, RuleCost>,
}

impl Figures {
    async fn read(app: &App, viewer: &Viewer, listed: &[Evaluator]) -> Result<Self, Problem> {
        let (catalog, ledger, project) = (&app.store.catalog, &app.store.ledger, &viewer.project);
        let since = week(app);
        let mut rules: HashMap<EvaluatorId, Vec<EvaluatorRule>> = HashMap::new();
        for rule in catalog.evaluator_rules(project).await? {
            rules.entry(rule.evaluator.clone()).or_default().push(rule);
        }
        let listed: HashSet<&EvaluatorId> = listed.iter().map(|one| &one.id).collect();
        let mut versions = catalog.version_fingerprints(project, MAX_VERSIONS).await?;
        versions.retain(|version| listed.contains(&version.evaluator));
        let keys: Vec<_> = versions.iter().map(|each| each.version.clone()).collect();
        let telemetry = &app.store.telemetry;
        let found = telemetry.version_scores(project, &keys, Some(since), MAX_SCORES).await?;
        let mut scores: HashMap<EvaluatorId, Vec<Vec<VersionScores>>> = HashMap::new();
        for (version, of_version) in versions.into_iter().zip(found) {
            scores.entry(version.evaluator).or_default().push(of_version);
        }
        let mut failed: HashMap<EvaluatorId, u64> = HashMap::new();
        for (evaluator, failures) in ledger.failures_by_evaluator(project, since).await? {
            *failed.entry(evaluator).or_default() += failures.n;
        }
        let costs = ledger.costs_by_evaluator(project, since).await?;
        Ok(Self { rules, scores, failed, costs })
    }

    fn line(&self, viewer: &Viewer, evaluator: &Evaluator) -> EvaluatorLine {
        let (base, id) = (viewer.base(), evaluator.id.as_str());
        let version = &evaluator.version;
        let rules = self.rules.get(&evaluator.id).into_iter().flatten();
        let rules =
            rules.map(|rule| (ResourceLink::new(&rule.name, rule.rule.as_str()), rule.is_enabled));
        let scores = self.scores.get(&evaluator.id).map_or(&[][..], Vec::as_slice);
        let n_failed = self.failed.get(&evaluator.id).copied().unwrap_or_default();
        EvaluatorLine {
            name: Text::from(evaluator.name.as_str()),
            href: evaluator_href(&base, id),
            kind: kind(version),
            implementation: implementation(version),
            version: version.number,
            pause: evaluator.paused.as_ref().map(|pause| pause_summary(pause, viewer)),
            rules: rules.collect(),
            scores: score_count(scores, MAX_SCORES),
            means: means(scores),
            scores_href: format!("{base}/scores?fingerprint={}", version.fingerprint),
            failed: (0 < n_failed).then(|| format!("{} failed", count(n_failed))),
            failed_href: format!("{base}/executions?state=failed&evaluator={}", encode(id)),
            cost: cost_text(self.costs.get(id).copied()),
        }
    }
}

/// `GET P/evaluators`
pub(crate) async fn list_page(State(app): State<App>, viewer: Viewer) -> Result<Response, Problem> {
    let catalog = &app.store.catalog;
    let found = catalog.evaluators(&viewer.project, None, EvaluatorsPage::LIMIT).await?;
    let setup = match found.items.is_empty() {
        true => Some(setup::guide_at(&app, &viewer.project, viewer.origin.clone()).await?),
        false => None,
    };
    let figures = Figures::read(&app, &viewer, &found.items).await?;
    let api = ApiRequest::new(&viewer.origin, "/api/public/v2/evaluators").with("limit", "100");
    let view = EvaluatorsPage {
        shell: viewer.shell(Section::Evaluators).with_api([api]),
        evaluators: found.items.iter().map(|one| figures.line(&viewer, one)).collect(),
        has_more: found.next.is_some(),
        setup,
        may_write: viewer.may(EvaluatorWrite),
    };
    page(StatusCode::OK, &view)
}
