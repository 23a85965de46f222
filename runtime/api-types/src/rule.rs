//! Evaluation rules, in the current and the legacy form.

use perpend_domain::budget::Budget;
use perpend_domain::evaluation::{self, LatePolicy, Mapping, OnMissing, TargetKind, VersionPolicy};
use perpend_domain::ids::{AssignmentId, EvaluatorId, RuleId};
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::any_json::AnyJson;
use crate::filter::{Condition, Conditions};
use crate::nullable;

/// A new rule, or a change of one: absent members are unchanged.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleInput {
    /// 1 to 200 characters.
    pub name: Option<String>,
    /// `true` also resumes a paused rule.
    pub enabled: Option<bool>,
    /// Share of the targets that is scored, greater than 0 and at most 1.
    #[serde(default, deserialize_with = "nullable::present")]
    #[schema(value_type = Option<f64>)]
    pub sampling: Option<Option<f64>>,
    /// Conditions that must all hold.
    #[schema(value_type = Option<Vec<Condition>>)]
    pub filter: Option<Conditions>,
    /// 1 to 20, in order.
    pub evaluator_assignments: Option<Vec<AssignmentInput>>,
    /// `observation`, `experiment` (items of experiments), `trace`, `session` (all traces of one session) or `run` (a whole
    /// run of an experiment).
    pub target: Option<String>,
    /// `continuous`: targets are evaluated as soon as they are complete. `cron`: at the firings of `cron`.
    pub schedule: Option<String>,
    /// Five fields (minute, hour, day of month, month, day of week) of a cron expression, such as `0 3 * * MON-FRI`. Makes
    /// the schedule `cron`.
    pub cron: Option<String>,
    /// IANA name of the time zone of `cron`, such as `Europe/Berlin`. When absent: the previous one, else `UTC`.
    pub timezone: Option<String>,
    /// Draw a sample independent of other rules.
    pub sampling_independent: Option<bool>,
    /// Milliseconds after the last change before a target counts as complete. When absent: 0 for a span,
    /// 10,000 for what came as create and update events, and for a trace whose root has ended. Not for sessions.
    pub settle_ms: Option<i64>,
    /// As `settleMs` if no root of the trace was received; 180,000 when absent: for a trace, and for an observation if the
    /// filter uses trace attributes (`traceName`, `tags`, and `userId` or `sessionId` that it does not have itself). For a
    /// session, after the last change of any of its traces: 1,800,000 when absent.
    pub quiet_ms: Option<i64>,
    /// The longest wait in milliseconds; 3,600,000 when absent, except for a session, which then waits without limit.
    pub max_wait_ms: Option<i64>,
    /// `fail`, `skip` or `empty`.
    pub on_missing: Option<String>,
    /// `ignore` or `rescore`.
    pub late: Option<String>,
    /// Limits on the cost of its model calls, at most one for each window; an empty list removes them.
    pub budget: Option<Vec<Budget>>,
    /// Default of the evaluators: `latest`, `pinned:N` or `shadow:N`.
    #[schema(value_type = Option<String>, pattern = "^(latest|(pinned|shadow):[1-9][0-9]*)$")]
    pub version_policy: Option<VersionPolicy>,
    /// Ids of at most 20 rules that must have finished with a target before it is evaluated; the filter can use their scores.
    pub after: Option<Vec<String>>,
    /// With `after`: share, from 0 to 1, of the targets rejected by conditions on scores alone that are scored nevertheless;
    /// 0.02 when absent.
    pub audit: Option<f64>,
    /// For changes: the `revision` of the rule that the change is based on. If the rule has another one by then, the change is
    /// refused with 409.
    #[schema(value_type = Option<String>, pattern = "^[0-9a-f]{64}$")]
    pub revision: Option<Digest>,
}

/// An evaluator that a rule uses.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssignmentInput {
    /// The evaluator.
    pub evaluator_id: String,
    /// Overrides the mapping of the evaluator.
    pub variable_mapping: Option<Vec<Mapping>>,
    /// The version: `latest`, `pinned:N`, or `shadow:N`, which runs next to the newest other version and keeps its scores apart.
    /// When absent: the default of the rule, else the previous value, else `latest`.
    #[schema(value_type = Option<String>, pattern = "^(latest|(pinned|shadow):[1-9][0-9]*)$")]
    pub version_policy: Option<VersionPolicy>,
}

/// One evaluator in a rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RuleAssignment)]
pub struct Assignment {
    id: AssignmentId,
    evaluator_id: EvaluatorId,
    /// Overrides the mapping of the evaluator.
    variable_mapping: Option<Vec<Mapping>>,
    /// `pinned:N` or `shadow:N`; absent for `latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    version_policy: Option<VersionPolicy>,
}

/// The status of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = RuleStatus)]
pub enum RuleStatus {
    /// Not enabled.
    Inactive,
    /// Scoring.
    Active,
    /// Enabled and blocked; see `pausedReason`.
    Paused,
}

/// A rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    id: RuleId,
    name: String,
    enabled: bool,
    status: RuleStatus,
    paused_at: Option<Timestamp>,
    /// A code such as `PLUGIN_FAILING`.
    paused_reason: Option<String>,
    /// Human-readable.
    paused_message: Option<String>,
    /// Share of the targets that is scored.
    sampling: f64,
    /// Conditions that must all hold, as sent.
    #[schema(value_type = Vec<Condition>)]
    filter: Conditions,
    evaluator_assignments: Vec<Assignment>,
    target: TargetKind,
    /// `continuous` or `cron`.
    schedule: String,
    /// The cron expression; absent for `continuous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cron: Option<String>,
    /// The time zone of the expression; absent for `continuous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    timezone: Option<String>,
    sampling_independent: bool,
    settle_ms: Option<i64>,
    quiet_ms: Option<i64>,
    max_wait_ms: Option<i64>,
    on_missing: OnMissing,
    late: LatePolicy,
    /// Limits on the cost of its model calls.
    budget: Vec<Budget>,
    /// The rules it depends on; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    after: Vec<RuleId>,
    /// Share of the targets rejected by conditions on scores alone that are scored nevertheless; absent without `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    audit: Option<f64>,
    /// Digest of all members that users set. A change can be bound to it.
    #[schema(value_type = String, pattern = "^[0-9a-f]{64}$")]
    revision: Digest,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// The definition of a rule after a change.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleChange {
    /// Time of the change.
    pub changed_at: Timestamp,
    /// Who made it, if known.
    pub author: Option<String>,
    /// The members of the rule that users set.
    #[schema(value_type = AnyJson)]
    pub definition: Value,
}

/// The firings of a rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleFirings {
    /// The next five; empty if the rule has no schedule or is disabled.
    pub next: Vec<Timestamp>,
    /// Firings of the last 31 days for which no server ran. Their targets were evaluated at the firing after them.
    pub missed_count: u64,
    /// The last firings, newest first.
    pub data: Vec<RuleFiring>,
}

/// A firing of the schedule of a rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleFiring {
    /// The time by the schedule.
    pub fired_at: Timestamp,
    /// The targets were complete after this time and not after `firedAt`.
    pub from: Timestamp,
    /// When the server noticed the firing: later than `firedAt` if it was not running.
    pub noticed_at: Timestamp,
    /// Earlier firings in this window, for which no server ran.
    pub missed_count: u64,
    /// Its executions: the sum of the next five.
    pub execution_count: u64,
    /// Executions that wait or run.
    pub open_count: u64,
    /// Executions with scores.
    pub completed_count: u64,
    /// Executions whose evaluator does not apply.
    pub skipped_count: u64,
    /// Failed executions.
    pub failed_count: u64,
    /// Cancelled executions.
    pub cancelled_count: u64,
}

impl From<&evaluation::Rule> for Rule {
    fn from(rule: &evaluation::Rule) -> Self {
        let paused = rule.paused.as_ref();
        let schedule = rule.schedule.as_ref();
        let assignment = |one: &evaluation::Assignment| Assignment {
            id: one.id.clone(),
            evaluator_id: one.evaluator_id.clone(),
            variable_mapping: one.mapping.clone(),
            version_policy: Some(one.version).filter(|policy| *policy != VersionPolicy::Latest),
        };
        Self {
            id: rule.id.clone(),
            name: rule.name.clone(),
            enabled: rule.enabled,
            status: match (rule.enabled, paused) {
                (false, _) => RuleStatus::Inactive,
                (true, None) => RuleStatus::Active,
                (true, Some(_)) => RuleStatus::Paused,
            },
            paused_at: paused.map(|pause| pause.at),
            paused_reason: paused.map(|pause| pause.reason.clone()),
            paused_message: paused.map(|pause| pause.message.clone()),
            sampling: rule.sampling,
            filter: Conditions(rule.filter.sent().to_vec()),
            evaluator_assignments: rule.assignments.iter().map(assignment).collect(),
            target: rule.target,
            schedule: match schedule {
                Some(_) => "cron",
                None => "continuous",
            }
            .to_owned(),
            cron: schedule.map(|schedule| schedule.expression().to_owned()),
            timezone: schedule.map(|schedule| schedule.timezone().to_owned()),
            sampling_independent: rule.sampling_independent,
            settle_ms: rule.timing.settle_ms,
            quiet_ms: rule.timing.quiet_ms,
            max_wait_ms: rule.timing.max_wait_ms,
            on_missing: rule.on_missing,
            late: rule.late,
            budget: rule.budget.clone(),
            audit: (!rule.after.is_empty()).then_some(rule.audit),
            after: rule.after.clone(),
            revision: rule.revision(),
            created_at: rule.created_at,
            updated_at: rule.updated_at,
        }
    }
}

/// A new rule, or a change of one, with evaluators by name: absent members are unchanged.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleInputByName {
    /// Unique.
    pub name: Option<String>,
    /// The only evaluator; alternative to `evaluators`.
    pub evaluator: Option<EvaluatorName>,
    /// Several evaluators.
    pub evaluators: Option<Vec<AssignmentInputByName>>,
    /// `observation` or `experiment`.
    pub target: Option<String>,
    /// Whether it is enabled.
    pub enabled: Option<bool>,
    /// Share of the targets that is scored, greater than 0 and at most 1.
    pub sampling: Option<f64>,
    /// Conditions that must all hold.
    #[schema(value_type = Option<Vec<Condition>>)]
    pub filter: Option<Conditions>,
    /// Mapping of the only evaluator.
    pub mapping: Option<Vec<Mapping>>,
}

/// An existing evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EvaluatorName {
    /// Its name.
    pub name: String,
    /// The type of the evaluator.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// An evaluator by name, with its mapping.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AssignmentInputByName {
    /// The evaluator.
    pub evaluator: EvaluatorName,
    /// Overrides the mapping of the evaluator.
    pub mapping: Option<Vec<Mapping>>,
}

/// An evaluator for legacy clients.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NamedEvaluator {
    /// Its id.
    pub id: EvaluatorId,
    /// Its name; empty if it was deleted.
    pub name: String,
    /// `code`, because legacy clients support only code and judges.
    #[serde(rename = "type")]
    pub kind: String,
}

/// One evaluator in a rule, for legacy clients.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AssignmentByName {
    /// The evaluator.
    pub evaluator: NamedEvaluator,
    /// Overrides the mapping of the evaluator.
    pub mapping: Option<Vec<Mapping>>,
}

/// A rule with additional members for legacy clients.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleByName {
    id: RuleId,
    name: String,
    enabled: bool,
    status: RuleStatus,
    paused_at: Option<Timestamp>,
    paused_reason: Option<String>,
    paused_message: Option<String>,
    sampling: f64,
    /// Without the condition that makes it an experiment rule.
    #[schema(value_type = Vec<Condition>)]
    filter: Conditions,
    evaluator_assignments: Vec<Assignment>,
    /// `observation`, `experiment` or `trace`.
    target: String,
    schedule: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cron: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    timezone: Option<String>,
    sampling_independent: bool,
    settle_ms: Option<i64>,
    quiet_ms: Option<i64>,
    max_wait_ms: Option<i64>,
    on_missing: OnMissing,
    late: LatePolicy,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The first evaluator.
    evaluator: Option<NamedEvaluator>,
    /// The mapping of the first evaluator.
    mapping: Vec<Mapping>,
    evaluators: Vec<AssignmentByName>,
    /// For trace rules: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    delay: Option<u32>,
    /// For trace rules: `NEW`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    time_scope: Option<Vec<String>>,
}

impl RuleByName {
    /// A rule with its evaluators by name. An experiment rule has its filter without the condition that makes it one.
    #[must_use]
    pub fn new(
        rule: &evaluation::Rule,
        evaluators: Vec<AssignmentByName>,
        of_experiments: Option<Conditions>,
    ) -> Self {
        let shown = Rule::from(rule);
        let is_of_traces = rule.target == TargetKind::Trace;
        let first = evaluators.first();
        Self {
            id: shown.id,
            name: shown.name,
            enabled: shown.enabled,
            status: shown.status,
            paused_at: shown.paused_at,
            paused_reason: shown.paused_reason,
            paused_message: shown.paused_message,
            sampling: shown.sampling,
            target: match of_experiments {
                Some(_) => "experiment".to_owned(),
                None => rule.target.to_string(),
            },
            filter: of_experiments.unwrap_or(shown.filter),
            evaluator_assignments: shown.evaluator_assignments,
            schedule: shown.schedule,
            cron: shown.cron,
            timezone: shown.timezone,
            sampling_independent: shown.sampling_independent,
            settle_ms: shown.settle_ms,
            quiet_ms: shown.quiet_ms,
            max_wait_ms: shown.max_wait_ms,
            on_missing: shown.on_missing,
            late: shown.late,
            created_at: shown.created_at,
            updated_at: shown.updated_at,
            evaluator: first.map(|one| one.evaluator.clone()),
            mapping: first.and_then(|one| one.mapping.clone()).unwrap_or_default(),
            evaluators,
            delay: is_of_traces.then_some(0),
            time_scope: is_of_traces.then(|| vec!["NEW".to_owned()]),
        }
    }
}
