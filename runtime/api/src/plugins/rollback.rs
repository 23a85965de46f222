//! Rollback of the evaluators of a project to a former version of a plug-in.
//!
//! - **All or nothing.** Every new version is validated before the first is written, and all are written in one
//!   transaction.
//! - **No change is lost.** Each new version must follow the version that was read; after a concurrent
//!   change of an evaluator the response is 409 and nothing is written.
//! - **Idempotent.** With `to`, evaluators of that version are not changed. Without it, only evaluators of the newest
//!   registered version are changed, and afterwards there are none.

use axum::extract::State;
use perpend_api_types::plugin::{EvaluatorOrigin, PluginMove, Rollback, RollbackResponse};
use perpend_catalog::{NewVersion, Plugin, Successor};
use perpend_domain::evaluation::{Evaluator, EvaluatorVersion};
use perpend_domain::ids::ProjectId;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Issue, Problem};
use semver::Version;

use crate::evaluators::Definition;
use crate::state::App;

/// Evaluators per query.
const PAGE: u32 = 100;
/// Versions of one evaluator that are searched for a configuration.
const MAX_VERSIONS: u32 = 100;

/// An evaluator and its new version.
struct EvaluatorMove {
    before: Evaluator,
    successor: Successor,
}

pub(super) async fn roll_back(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<Rollback>,
) -> Result<Answer<RollbackResponse>, Problem> {
    let project = &caller.project;
    let registered = registered(&app, project, &input.name).await?;
    if let Some(to) = &input.to
        && registered.iter().all(|plugin| plugin.info.version != *to)
    {
        let message = format!(
            "the plug-in {} has no version {to:?}; registered versions: {}",
            input.name,
            versions(&registered)
        );
        return Err(Problem::new(Code::NotFound, message).with("field", "to"));
    }
    let mut moves = Vec::new();
    let mut issues = Vec::new();
    for evaluator in users(&app, project, &input.name).await? {
        if input.to.is_none() && !is_newest(&registered, &evaluator.version) {
            continue;
        }
        match target(&registered, &evaluator.version, input.to.as_deref()) {
            Some(target) if target.digest == evaluator.version.plugin => {}
            Some(target) => match on_plugin(&app, project, &evaluator, target).await {
                Ok(version) => moves.push(EvaluatorMove::new(evaluator, version)),
                Err(problem) => issues.push(issue(&evaluator, problem.message())),
            },
            None => {
                let message = format!(
                    "its version {} has no former version; registered versions: {}",
                    evaluator.version.plugin_version,
                    versions(&registered)
                );
                issues.push(issue(&evaluator, &message));
            }
        }
    }
    if !issues.is_empty() {
        return Err(Problem::issues(Code::Unprocessable, issues));
    }
    let data: Vec<PluginMove> = if input.dry_run {
        moves.iter().map(|one| one.view(None)).collect()
    } else {
        let successors: Vec<Successor> = moves.iter().map(|one| one.successor.clone()).collect();
        let now = app.web.clock.now();
        let numbers = app.store.catalog.add_successors(project, &successors, now).await?;
        let made = moves.iter().zip(numbers);
        made.map(|(one, number)| one.view(Some(number))).collect()
    };
    Ok(Answer(RollbackResponse { data, dry_run: input.dry_run }))
}

fn issue(evaluator: &Evaluator, reason: &str) -> Issue {
    Issue::new(
        "",
        format!("no evaluator was changed: {:?} ({}): {reason}", evaluator.name, evaluator.id),
    )
}

/// The registered plug-ins of a name, lowest version first.
async fn registered(app: &App, project: &ProjectId, name: &str) -> Result<Vec<Plugin>, Problem> {
    let mut all = app.store.catalog.plugins(project).await?;
    all.retain(|plugin| plugin.is_named(name));
    if all.is_empty() {
        let message = format!("unknown plug-in {name:?}; GET /api/v1/plugins lists the plug-ins");
        return Err(Problem::new(Code::NotFound, message).with("field", "name"));
    }
    // A version of a built-in plug-in may have several digests; the last registered one comes last.
    all.sort_by_cached_key(|plugin| (Version::parse(&plugin.info.version).ok(), plugin.created_at));
    Ok(all)
}

fn versions(registered: &[Plugin]) -> String {
    let mut all: Vec<&str> = registered.iter().map(|plugin| plugin.info.version.as_str()).collect();
    all.dedup();
    all.join(", ")
}

/// The evaluators whose newest version uses the plug-in.
async fn users(app: &App, project: &ProjectId, name: &str) -> Result<Vec<Evaluator>, Problem> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = app.store.catalog.evaluators(project, after.as_ref(), PAGE).await?;
        let using = page.items.into_iter();
        found.extend(using.filter(|evaluator| evaluator.version.plugin_name == name));
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

/// Whether a version uses the newest registered plug-in.
fn is_newest(registered: &[Plugin], current: &EvaluatorVersion) -> bool {
    let newest = registered.last();
    newest.is_some_and(|newest| newest.info.version == current.plugin_version)
}

/// The plug-in version of the rollback: the requested one, or the next lower one.
fn target<'p>(
    registered: &'p [Plugin],
    current: &EvaluatorVersion,
    to: Option<&str>,
) -> Option<&'p Plugin> {
    let mut latest_first = registered.iter().rev();
    match to {
        Some(to) => latest_first.find(|plugin| plugin.info.version == to),
        None => {
            let own = Version::parse(&current.plugin_version).ok()?;
            latest_first.find(|plugin| {
                Version::parse(&plugin.info.version).is_ok_and(|version| version < own)
            })
        }
    }
}

/// Validates the definition of an evaluator with another component.
async fn on_plugin(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
    target: &Plugin,
) -> Result<NewVersion, Problem> {
    let current = &evaluator.version;
    let with_its_own = Definition::on_plugin(current, target, current.config.clone());
    let refused = match with_its_own.check(app, project).await {
        Ok(version) => return Ok(version),
        Err(problem) => problem,
    };
    // A later plug-in may have filled in defaults that are unknown to a former one. The configuration that the evaluator
    // had with the former one is valid.
    let former =
        app.store.catalog.evaluator_versions(project, &evaluator.id, None, MAX_VERSIONS).await?;
    let former = former.iter().find(|version| version.plugin == target.digest);
    match former {
        Some(former) => {
            let with_former = Definition::on_plugin(current, target, former.config.clone());
            with_former.check(app, project).await
        }
        None => Err(refused),
    }
}

impl EvaluatorMove {
    fn new(before: Evaluator, version: NewVersion) -> Self {
        let successor =
            Successor { evaluator: before.id.clone(), follows: before.version.number, version };
        Self { before, successor }
    }

    fn view(&self, number: Option<u32>) -> PluginMove {
        let (current, next) = (&self.before.version, &self.successor.version);
        PluginMove {
            evaluator_id: self.before.id.clone(),
            name: self.before.name.clone(),
            before: EvaluatorOrigin {
                evaluator_version: Some(current.number),
                plugin_version: current.plugin_version.clone(),
                digest: current.plugin,
            },
            after: EvaluatorOrigin {
                evaluator_version: number,
                plugin_version: next.plugin_version.clone(),
                digest: next.plugin,
            },
        }
    }
}
