//! Evaluation rules: the assignment of targets to evaluators.

use axum::extract::{Path, State};
use perpend_api_types::list::{CompleteList, CursorList, IdResponse};
use perpend_api_types::rule::{self as contract, AssignmentInput, RuleChange, RuleInput};
use perpend_catalog::RulePatch;
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::chain::{self, ChainFault};
use perpend_domain::cron::Schedule;
use perpend_domain::evaluation::{
    Assignment, Evaluator, LatePolicy, OnMissing, Rule, TargetKind, Timing, VersionPolicy,
};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{AssignmentId, EvaluatorId, ProjectId, RuleId};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Body, MISSING, Params, must_be_one_of};
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use perpend_scheduler::SCHEDULE_JOB;

use super::evaluators::{self, PAGE, check_mapping_for};
use crate::budgets;
use crate::selections::{check_datasets, selection};
use crate::state::{App, Routes};

const LIST: &str = "/api/public/v2/evaluation-rules";
const ONE: &str = "/api/public/v2/evaluation-rules/{ruleId}";
const CHANGES: &str = "/api/v1/evaluation-rules/{ruleId}/changes";
/// Changes in a response.
const MAX_CHANGES: u32 = 500;
const MAX_ASSIGNMENTS: usize = 20;
const DAY_MS: i64 = 86_400_000;

pub(super) fn routes(routes: &mut Routes) {
    let create =
        Operation::post("createRule", LIST, "Create a rule", EvaluatorWrite).body::<RuleInput>();
    routes.add(create, create_rule);
    routes.add(
        Operation::get("listRules", LIST, "List rules, newest first", EvaluatorRead).query(PAGE),
        list_rules,
    );
    routes.add(Operation::get("getRule", ONE, "Get a rule", EvaluatorRead), get_rule);
    let patch = Operation::patch(
        "updateRule",
        ONE,
        "Update a rule; lists are replaced as a whole",
        EvaluatorWrite,
    )
    .body::<RuleInput>();
    routes.add(patch, patch_rule);
    routes.add(
        Operation::delete("deleteRule", ONE, "Delete a rule; its scores are kept", EvaluatorWrite),
        delete_rule,
    );
    let changes = Operation::get(
        "listRuleChanges",
        CHANGES,
        "List the changes of a rule, newest first",
        EvaluatorRead,
    );
    routes.add(changes, list_changes);
}

pub(super) fn parse_choice<T: Copy + std::str::FromStr>(
    field: &str,
    raw: Option<&str>,
    all: &[T],
    text: fn(T) -> &'static str,
) -> Result<Option<T>, Problem> {
    let parse = |raw: &str| {
        raw.parse().map_err(|_| {
            let names: Vec<&str> = all.iter().map(|value| text(*value)).collect();
            Problem::body(field, must_be_one_of(&names, raw))
        })
    };
    raw.map(parse).transpose()
}

/// Collects problems, so that one response has all of them.
#[derive(Debug, Default)]
struct ProblemList(Vec<Problem>);

impl ProblemList {
    fn collect<T>(&mut self, read: Result<Option<T>, Problem>) -> Option<T> {
        read.unwrap_or_else(|problem| {
            self.0.push(problem);
            None
        })
    }

    fn finish(self) -> Result<(), Problem> {
        Problem::all(self.0).map_or(Ok(()), Err)
    }
}

/// Validates a request without the state of other resources. A new rule has more required fields.
fn patch_of(input: &RuleInput, app: &App, current: Option<&Rule>) -> Result<RulePatch, Problem> {
    let is_new = current.is_none();
    let base = current.map_or_else(Timing::default, |rule| rule.timing);
    let assigned = current.map_or(&[][..], |rule| &rule.assignments);
    let mut faults = ProblemList::default();
    let required = [
        ("name", input.name.is_some()),
        ("enabled", input.enabled.is_some()),
        ("evaluatorAssignments", input.evaluator_assignments.is_some()),
    ];
    for (field, _) in required.iter().filter(|(_, is_present)| is_new && !is_present) {
        faults.0.push(Problem::body(field, MISSING));
    }
    let name = input.name.as_deref().map(evaluators::checked_name);
    let target = input.target.as_deref();
    let on_missing = input.on_missing.as_deref();
    let late = input.late.as_deref();
    let policy = input.version_policy;
    let assignments = input.evaluator_assignments.as_ref();
    let assignments = assignments.map(|list| checked_assignments(app, list, policy, assigned));
    let current_schedule = current.and_then(|rule| rule.schedule.as_ref());
    let schedule = faults.collect(schedule_of(input, current_schedule));
    let conditions = input.filter.iter().flat_map(|sent| &sent.0).enumerate();
    for (at, _) in conditions.filter(|(_, condition)| !condition.is_object()) {
        let field = format!("filter[{at}]");
        faults.0.push(Problem::body(&field, "must be an object"));
    }
    let patch = RulePatch {
        name: faults.collect(name.transpose()),
        target: faults.collect(parse_choice("target", target, TargetKind::ALL, TargetKind::as_str)),
        enabled: input.enabled,
        sampling: faults.collect(input.sampling.map(checked_sampling).transpose()),
        sampling_independent: input.sampling_independent,
        filter: None,
        assignments: faults.collect(assignments.transpose()),
        // Assignments in the request have the policy already.
        version: policy.filter(|_| input.evaluator_assignments.is_none()),
        schedule,
        timing: Some(timing_of(input, base, &mut faults)),
        on_missing: faults.collect(parse_choice(
            "onMissing",
            on_missing,
            OnMissing::ALL,
            OnMissing::as_str,
        )),
        late: faults.collect(parse_choice("late", late, LatePolicy::ALL, LatePolicy::as_str)),
        budget: input.budget.clone(),
        after: faults.collect(input.after.as_deref().map(checked_after).transpose()),
        audit: faults.collect(input.audit.map(checked_audit).transpose()),
        revision: input.revision,
    };
    faults.finish().map(|()| patch)
}

/// The schedule of the request; absent if it is unchanged, `Some(None)` if targets are evaluated at once.
fn schedule_of(
    input: &RuleInput,
    current: Option<&Schedule>,
) -> Result<Option<Option<Schedule>>, Problem> {
    let (cron, timezone) = (input.cron.as_deref(), input.timezone.as_deref());
    let is_cron = match input.schedule.as_deref() {
        Some("continuous") => {
            for (field, value) in [("cron", cron), ("timezone", timezone)] {
                if value.is_some() {
                    let message = "must be absent for the schedule `continuous`";
                    return Err(Problem::body(field, message));
                }
            }
            return Ok(Some(None));
        }
        Some("cron") => true,
        Some(other) => {
            let message = must_be_one_of(&["continuous", "cron"], other);
            return Err(Problem::body("schedule", message));
        }
        None => cron.is_some() || timezone.is_some(),
    };
    if !is_cron {
        return Ok(None);
    }
    let Some(cron) = cron.or(current.map(Schedule::expression)) else {
        return Err(Problem::body("cron", MISSING));
    };
    let timezone = timezone.or(current.map(Schedule::timezone)).unwrap_or("UTC");
    let schedule = Schedule::parse(cron, timezone);
    let schedule = schedule.map_err(|error| Problem::body(error.member(), error.to_string()))?;
    Ok(Some(Some(schedule)))
}

/// The delays of the request, otherwise those of `base`.
fn timing_of(input: &RuleInput, base: Timing, faults: &mut ProblemList) -> Timing {
    let mut wait = |field: &str, wait: Option<i64>| {
        let message = || format!("must be from 0 to {DAY_MS} milliseconds");
        match wait {
            Some(ms) if !(0..=DAY_MS).contains(&ms) => {
                faults.collect(Err(Problem::body(field, message())))
            }
            other => other,
        }
    };
    Timing {
        settle_ms: wait("settleMs", input.settle_ms).or(base.settle_ms),
        quiet_ms: wait("quietMs", input.quiet_ms).or(base.quiet_ms),
        max_wait_ms: wait("maxWaitMs", input.max_wait_ms).or(base.max_wait_ms),
    }
}

/// Refuses a delay that sessions do not have.
fn check_waits(input: &RuleInput, target: TargetKind) -> Result<(), Problem> {
    match (target, input.settle_ms) {
        (TargetKind::Session, Some(_)) => Err(Problem::body(
            "settleMs",
            "must be absent for sessions, which are complete after quietMs without data",
        )),
        _ => Ok(()),
    }
}

fn checked_sampling(sampling: Option<f64>) -> Result<f64, Problem> {
    match sampling {
        Some(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        other => {
            let found = other.map_or_else(|| "null".to_owned(), |rate| rate.to_string());
            let message = format!(
                "must be greater than 0 and at most 1, got {found}; set enabled to false to score nothing"
            );
            Err(Problem::body("sampling", message))
        }
    }
}

fn checked_after(ids: &[String]) -> Result<Vec<RuleId>, Problem> {
    if chain::MAX_AFTER < ids.len() {
        let fault = ChainFault::TooMany;
        return Err(Problem::body(&fault.field(), fault.to_string()));
    }
    let ids = ids.iter().enumerate().map(|(at, id)| {
        RuleId::new(id).map_err(|error| Problem::body(&format!("after[{at}]"), error.to_string()))
    });
    ids.collect()
}

fn checked_audit(audit: f64) -> Result<f64, Problem> {
    match audit {
        0.0..=1.0 => Ok(audit),
        _ => Err(Problem::body("audit", format!("must be from 0 to 1, got {audit}"))),
    }
}

fn checked_assignments(
    app: &App,
    list: &[AssignmentInput],
    policy: Option<VersionPolicy>,
    assigned: &[Assignment],
) -> Result<Vec<Assignment>, Problem> {
    if list.len() > MAX_ASSIGNMENTS {
        let message =
            format!("must contain at most {MAX_ASSIGNMENTS} evaluators, got {}", list.len());
        return Err(Problem::body("evaluatorAssignments", message));
    }
    let mut assignments = Vec::with_capacity(list.len());
    for (at, input) in list.iter().enumerate() {
        let field = format!("evaluatorAssignments[{at}].evaluatorId");
        let evaluator_id = EvaluatorId::new(&input.evaluator_id)
            .map_err(|error| Problem::body(&field, error.to_string()))?;
        if assignments.iter().any(|known: &Assignment| known.evaluator_id == evaluator_id) {
            return Err(Problem::body(
                &field,
                "must be unique: another assignment has this evaluator",
            ));
        }
        let id = AssignmentId::new(&app.web.ids.uuid().to_string());
        // Without a policy in the request, the current one is kept.
        let mut assigned = assigned.iter();
        let policy_in_use = assigned.find(|each| each.evaluator_id == evaluator_id);
        let policy_in_use = policy_in_use.map(|each| each.version);
        assignments.push(Assignment {
            id: id.map_err(|_| Problem::internal())?,
            version: input.version_policy.or(policy).or(policy_in_use).unwrap_or_default(),
            evaluator_id,
            mapping: input.variable_mapping.clone(),
            skipped_until: None,
        });
    }
    Ok(assignments)
}

/// Validates mappings against the target and assignments against `enabled`.
///
/// Returns the evaluators in the order of the assignments, each with the versions that are used.
async fn check_whole(
    app: &App,
    project: &ProjectId,
    rule: &Rule,
) -> Result<Vec<Evaluator>, Problem> {
    if rule.enabled && rule.assignments.is_empty() {
        return Err(Problem::body(
            "evaluatorAssignments",
            "must contain at least one evaluator for an enabled rule",
        ));
    }
    let links = app.store.catalog.rule_links(project).await?;
    chain::check(&rule.into(), &links)
        .map_err(|fault| Problem::body(&fault.field(), fault.to_string()))?;
    let mut evaluators = Vec::with_capacity(rule.assignments.len());
    for (at, assignment) in rule.assignments.iter().enumerate() {
        let evaluator = app.store.catalog.evaluator(project, &assignment.evaluator_id).await?;
        let evaluator = evaluator.ok_or_else(|| {
            let message = format!("unknown evaluator {:?}", assignment.evaluator_id.as_str());
            Problem::new(Code::NotFound, message)
                .with("field", format!("evaluatorAssignments[{at}].evaluatorId"))
        })?;
        let field = format!("evaluatorAssignments[{at}].variableMapping");
        for one in versions_of(app, project, at, assignment, evaluator).await? {
            let mapping = assignment.mapping.as_ref();
            let mapping = mapping.unwrap_or(&one.version.mapping);
            check_mapping_for(&field, &one.version, mapping, rule.target)?;
            evaluators.push(one);
        }
    }
    budgets::check(app, project, &rule.budget, &evaluators).await?;
    Ok(evaluators)
}

/// The versions of an evaluator that an assignment uses: the live one and the shadow one.
async fn versions_of(
    app: &App,
    project: &ProjectId,
    at: usize,
    assignment: &Assignment,
    newest: Evaluator,
) -> Result<Vec<Evaluator>, Problem> {
    let (policy, number) = (assignment.version, newest.version.number);
    let wrong = |message: String| {
        let field = format!("evaluatorAssignments[{at}].versionPolicy");
        Problem::body(&field, message)
    };
    if policy.named().is_some_and(|named| number < named) {
        return Err(wrong(format!(
            "must not exceed version {number}, the newest of the evaluator, got {policy:?}",
            policy = policy.to_string()
        )));
    }
    let used = app.store.catalog.used_versions(project, newest, policy);
    let none = || wrong("must leave a version that can score".to_owned());
    let used = used.await?.ok_or_else(none)?;
    Ok([Some(used.live), used.shadow].into_iter().flatten().collect())
}

pub(super) fn parse_id(id: &str) -> Result<RuleId, Problem> {
    RuleId::new(id).map_err(|_| Problem::not_found("evaluation rule"))
}

pub(super) async fn find(app: &App, project: &ProjectId, id: &str) -> Result<Rule, Problem> {
    let found = app.store.catalog.rule(project, &parse_id(id)?).await?;
    found.ok_or_else(|| Problem::not_found("evaluation rule"))
}

/// An unsaved rule, and its evaluators in the order of the assignments, each with the versions that are used.
pub(super) async fn draft(
    app: &App,
    project: &ProjectId,
    input: &RuleInput,
) -> Result<(Rule, Vec<Evaluator>), Problem> {
    let patch = patch_of(input, app, None)?;
    let target = patch.target.unwrap_or(TargetKind::Observation);
    check_waits(input, target)?;
    let sent = input.filter.clone().unwrap_or_default();
    let rule = Rule {
        name: patch.name.unwrap_or_default(),
        enabled: patch.enabled.unwrap_or_default(),
        sampling: patch.sampling.unwrap_or(1.0),
        sampling_independent: patch.sampling_independent.unwrap_or(false),
        assignments: patch.assignments.unwrap_or_default(),
        schedule: patch.schedule.flatten(),
        timing: patch.timing.unwrap_or_default(),
        on_missing: patch.on_missing.unwrap_or(OnMissing::Fail),
        late: patch.late.unwrap_or(LatePolicy::Ignore),
        budget: patch.budget.unwrap_or_default(),
        after: patch.after.unwrap_or_default(),
        audit: patch.audit.unwrap_or(chain::AUDIT),
        ..selection(app, project, target, sent).await?
    };
    let evaluators = check_whole(app, project, &rule).await?;
    Ok((rule, evaluators))
}

/// Creates a rule.
pub(super) async fn make(
    app: &App,
    project: &ProjectId,
    input: &RuleInput,
) -> Result<Rule, Problem> {
    let (rule, evaluators) = draft(app, project, input).await?;
    if rule.enabled {
        evaluators::preflight(app, project, evaluators).await?;
    }
    let catalog = &app.store.catalog;
    let rule = catalog.create_rule(project, &rule, &*app.web.clock).await?;
    app.jobs.wake(SCHEDULE_JOB);
    Ok(rule)
}

/// Changes a rule.
pub(super) async fn change(
    app: &App,
    project: &ProjectId,
    current: Rule,
    input: &RuleInput,
) -> Result<Rule, Problem> {
    if input.revision.is_some_and(|seen| seen != current.revision()) {
        let message = "the rule was changed after this revision: read it again";
        return Err(Problem::new(Code::Conflict, message).with("field", "revision"));
    }
    let mut patch = patch_of(input, app, Some(&current))?;
    let now = app.web.clock.now();
    let target = patch.target.unwrap_or(current.target);
    check_waits(input, target)?;
    // Also an unchanged filter: it may have been validated for another target, or by an older version.
    let sent = input.filter.clone();
    let sent = sent.map_or_else(|| current.filter.sent().to_vec(), |sent| sent.0);
    let filter = WrittenFilter::parse(sent, target.filter_columns()).map_err(filter_problem)?;
    patch.filter = input.filter.is_some().then_some(filter);
    if target == TargetKind::Session
        && let Some(timing) = &mut patch.timing
    {
        timing.settle_ms = None;
    }
    let mut changed = current.clone();
    patch.apply(&mut changed, now);
    let mut evaluators = check_whole(app, project, &changed).await?;
    if let Some(filter) = &patch.filter {
        check_datasets(app, project, filter).await?;
    }
    // Evaluators that the rule uses already are not tested again.
    if current.enabled && (current.paused.is_none() || patch.enabled != Some(true)) {
        let is_in_use = |one: &Evaluator| {
            let policy = |rule: &Rule| {
                let mut all = rule.assignments.iter();
                let found = all.find(|each| each.evaluator_id == one.id);
                found.map(|each| each.version)
            };
            policy(&current).is_some() && policy(&current) == policy(&changed)
        };
        evaluators.retain(|one| !is_in_use(one));
    }
    if changed.enabled {
        evaluators::preflight(app, project, evaluators).await?;
    }
    let catalog = &app.store.catalog;
    let patched = catalog.patch_rule(project, &changed.id, &patch, &*app.web.clock).await?;
    app.scheduler.end_waits_for_firings(project, &patched).await?;
    app.jobs.wake(SCHEDULE_JOB);
    Ok(patched)
}

/// Deletes a rule; its scores are kept.
pub(super) async fn delete(app: &App, project: &ProjectId, id: &str) -> Result<RuleId, Problem> {
    let rule = find(app, project, id).await?;
    app.store.catalog.delete_rule(project, &rule.id).await?;
    app.scheduler.end_deleted_rule(project, &rule.id).await?;
    app.jobs.wake(SCHEDULE_JOB);
    Ok(rule.id)
}

async fn create_rule(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<RuleInput>,
) -> Result<Answer<contract::Rule>, Problem> {
    let made = make(&app, &caller.project, &input).await?;
    Ok(Answer((&made).into()))
}

async fn list_rules(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CursorList<contract::Rule>>, Problem> {
    let limit = params.int("limit", 1, 100, 50)?;
    let after = cursor::position(&params)?;
    let page = app.store.catalog.rules(&caller.project, after.as_ref(), limit).await?;
    Ok(Answer(CursorList {
        data: page.items.iter().map(Into::into).collect(),
        meta: cursor::meta(page.next.as_ref()),
    }))
}

async fn get_rule(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<contract::Rule>, Problem> {
    let rule = find(&app, &caller.project, &id).await?;
    Ok(Answer((&rule).into()))
}

async fn patch_rule(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<RuleInput>,
) -> Result<Answer<contract::Rule>, Problem> {
    let current = find(&app, &caller.project, &id).await?;
    let changed = change(&app, &caller.project, current, &input).await?;
    Ok(Answer((&changed).into()))
}

async fn delete_rule(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<IdResponse<RuleId>>, Problem> {
    let id = delete(&app, &caller.project, &id).await?;
    Ok(Answer(IdResponse { id }))
}

async fn list_changes(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<CompleteList<RuleChange>>, Problem> {
    let rule = find(&app, &caller.project, &id).await?;
    let changes = app.store.catalog.rule_changes(&caller.project, &rule.id, MAX_CHANGES).await?;
    let changes = changes.into_iter().map(|change| RuleChange {
        changed_at: change.at,
        author: change.author,
        definition: change.definition,
    });
    Ok(Answer(CompleteList { data: changes.collect() }))
}
