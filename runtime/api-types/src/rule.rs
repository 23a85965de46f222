//! An evaluation rule: as clients send it, as it reads, and as older clients send and read it.

use perpend_domain::budget::Budget;
use perpend_domain::evaluation::{self, Late, Mapping, OnMissing, TargetKind, VersionPolicy};
use perpend_domain::ids::{AssignmentId, EvaluatorId, RuleId};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::filter::{Condition, Conditions};

/// A rule, or a change of one: what is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleInput {
    /// 1 to 200 characters.
    pub name: Option<String>,
    /// `true` also lets a paused rule go on.
    pub enabled: Option<bool>,
    /// Share of the targets that is scored, above 0 and at most 1.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<f64>)]
    pub sampling: Option<Option<f64>>,
    /// Conditions that all must hold.
    #[schema(value_type = Option<Vec<Condition>>)]
    pub filter: Option<Conditions>,
    /// 1 to 20, in order.
    pub evaluator_assignments: Option<Vec<AssignmentInput>>,
    /// `observation`, `experiment` (roots of experiment items), `trace` or `session` (all traces of one session).
    pub target: Option<String>,
    /// `continuous`.
    pub schedule: Option<String>,
    /// Draw another sample than the other rules.
    pub sampling_independent: Option<bool>,
    /// Milliseconds after the last change before a target counts as complete. When absent: 0 for a span,
    /// 10,000 for what came as create and update events, and for a trace whose root has ended. Not for sessions.
    pub settle_ms: Option<i64>,
    /// As `settleMs` where no root of the trace has come, 180,000 when absent: for a trace, and for an
    /// observation when the filter asks for what only its trace knows (`traceName`, `tags`, and `userId`
    /// or `sessionId` that it does not say itself). For a session, after the last change of any of its traces: 1,800,000
    /// when absent.
    pub quiet_ms: Option<i64>,
    /// The longest wait in milliseconds, whatever still comes; 3,600,000 when absent, but for a session, which then waits as
    /// long as something comes.
    pub max_wait_ms: Option<i64>,
    /// `fail`, `skip` or `empty`.
    pub on_missing: Option<String>,
    /// `ignore` or `rescore`.
    pub late: Option<String>,
    /// What its model calls may cost, at most one for each window; none lifts the limits.
    pub budget: Option<Vec<Budget>>,
    /// Of all evaluators that have none of their own: `latest`, `pinned:N` or `shadow:N`.
    #[schema(value_type = Option<String>, pattern = "^(latest|(pinned|shadow):[1-9][0-9]*)$")]
    pub version_policy: Option<VersionPolicy>,
    /// Ids of at most 20 rules. A target is looked at when they have ended with it, and the filter sees their scores. None
    /// waits for nothing.
    pub after: Option<Vec<String>>,
    /// Of a rule with `after`: share, from 0 to 1, of the targets that only conditions on scores refuse, and that are scored
    /// all the same; 0.02 when absent.
    pub audit: Option<f64>,
}

/// Tells `null` from absent.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// An evaluator that a rule uses.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AssignmentInput {
    /// The evaluator.
    pub evaluator_id: String,
    /// Instead of the evaluator's own mapping.
    pub variable_mapping: Option<Vec<Mapping>>,
    /// Which version: `latest`; `pinned:N`; or `shadow:N`, with which the newest version other than this one scores, and the
    /// scores of this one stand aside. When absent: as the rule says for all, else as it was, else `latest`.
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
    /// Instead of the evaluator's own mapping.
    variable_mapping: Option<Vec<Mapping>>,
    /// `pinned:N` or `shadow:N`; absent where the newest version scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    version_policy: Option<VersionPolicy>,
}

/// Whether a rule scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = RuleStatus)]
pub enum RuleStatus {
    /// It is not enabled.
    Inactive,
    /// It scores.
    Active,
    /// It is enabled and blocked; `pausedReason` says why.
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
    /// For programs, such as `PLUGIN_FAILING`.
    paused_reason: Option<String>,
    /// For people.
    paused_message: Option<String>,
    /// Share of the targets that is scored.
    sampling: f64,
    /// Conditions that all must hold, as they were sent.
    #[schema(value_type = Vec<Condition>)]
    filter: Conditions,
    evaluator_assignments: Vec<Assignment>,
    target: TargetKind,
    /// `continuous`.
    schedule: String,
    sampling_independent: bool,
    settle_ms: Option<i64>,
    quiet_ms: Option<i64>,
    max_wait_ms: Option<i64>,
    on_missing: OnMissing,
    late: Late,
    /// What its model calls may cost.
    budget: Vec<Budget>,
    /// The rules that it waits for; absent where it waits for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    after: Vec<RuleId>,
    /// Share of what only conditions on scores refuse, and that is scored all the same; absent where it waits for no rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    audit: Option<f64>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&evaluation::Rule> for Rule {
    fn from(rule: &evaluation::Rule) -> Self {
        let paused = rule.paused.as_ref();
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
            schedule: "continuous".to_owned(),
            sampling_independent: rule.sampling_independent,
            settle_ms: rule.timing.settle_ms,
            quiet_ms: rule.timing.quiet_ms,
            max_wait_ms: rule.timing.max_wait_ms,
            on_missing: rule.on_missing,
            late: rule.late,
            budget: rule.budget.clone(),
            audit: (!rule.after.is_empty()).then_some(rule.audit),
            after: rule.after.clone(),
            created_at: rule.created_at,
            updated_at: rule.updated_at,
        }
    }
}

/// A rule, or a change of one, with evaluators by name: what is absent stays as it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleInputByName {
    /// No other rule has it.
    pub name: Option<String>,
    /// The only evaluator; or `evaluators`.
    pub evaluator: Option<EvaluatorName>,
    /// Several.
    pub evaluators: Option<Vec<AssignmentInputByName>>,
    /// `observation` or `experiment`.
    pub target: Option<String>,
    /// Whether it scores.
    pub enabled: Option<bool>,
    /// Share of the targets that is scored, above 0 and at most 1.
    pub sampling: Option<f64>,
    /// Conditions that all must hold.
    #[schema(value_type = Option<Vec<Condition>>)]
    pub filter: Option<Conditions>,
    /// Of the only evaluator.
    pub mapping: Option<Vec<Mapping>>,
}

/// An evaluator that exists.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EvaluatorName {
    /// Its name.
    pub name: String,
    /// As the evaluator has it.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// An evaluator by name, and what it gets.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AssignmentInputByName {
    /// The evaluator.
    pub evaluator: EvaluatorName,
    /// Instead of the evaluator's own mapping.
    pub mapping: Option<Vec<Mapping>>,
}

/// An evaluator as older clients read it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NamedEvaluator {
    /// Its id.
    pub id: EvaluatorId,
    /// Its name; empty when it is no more.
    pub name: String,
    /// `code`: older clients know code and judges.
    #[serde(rename = "type")]
    pub kind: String,
}

/// One evaluator in a rule, as older clients read it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AssignmentByName {
    /// The evaluator.
    pub evaluator: NamedEvaluator,
    /// Instead of the evaluator's own mapping.
    pub mapping: Option<Vec<Mapping>>,
}

/// A rule with the members that older clients read beside.
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
    /// Without the condition that makes it a rule of experiments.
    #[schema(value_type = Vec<Condition>)]
    filter: Conditions,
    evaluator_assignments: Vec<Assignment>,
    /// `observation`, `experiment` or `trace`.
    target: String,
    schedule: String,
    sampling_independent: bool,
    settle_ms: Option<i64>,
    quiet_ms: Option<i64>,
    max_wait_ms: Option<i64>,
    on_missing: OnMissing,
    late: Late,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The first.
    evaluator: Option<NamedEvaluator>,
    /// Of the first.
    mapping: Vec<Mapping>,
    evaluators: Vec<AssignmentByName>,
    /// Of a rule of traces: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    delay: Option<u32>,
    /// Of a rule of traces: `NEW`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    time_scope: Option<Vec<String>>,
}

impl RuleByName {
    /// With its evaluators by name. A rule of experiments is shown with its filter less the condition that makes
    /// it one.
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
