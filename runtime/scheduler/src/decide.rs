//! Decides whether a rule takes a complete target (evaluation.md 1.5).

use std::borrow::Cow;

use perpend_domain::evaluation::{
    Execution, ExecutionOrigin, LatePolicy, NewExecution, Target, TargetKind,
};
use perpend_domain::filter::{Cell, Row, SCORE_COLUMNS, describe_condition};
use perpend_domain::identity::{ExecutionKey, shadow_rule};
use perpend_domain::ids::{AssignmentId, EvaluatorId, ExecutionId, ProjectId};
use perpend_domain::sampling;
use perpend_domain::server_run;
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::catalog::{PreparedAssignment, PreparedRule};
use crate::completeness::Completion;

/// Prefixes of the environments of the engine's own traces, as clients of either family name them.
const RESERVED_PREFIXES: [&str; 2] = ["perpend", "langfuse"];
const RESERVED_ALIASES: [&str; 2] = ["llm-as-a-judge", "code-eval"];
/// Environments of server-side experiments, which users start explicitly.
const OPEN: [&str; 2] = [server_run::RUN_ENVIRONMENT, "langfuse-prompt-experiment"];

/// The environment of runs and their scores.
pub(crate) const RUN_ENVIRONMENT: &str = "default";

/// The column that marks the root of an experiment item.
const ITEM_ROOT: &str = "isExperimentItemRootSpan";

/// Maximum length of the actual value in a message.
const MAX_ACTUAL_CHARS: usize = 200;

/// Why a rule does not take a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// The rule is disabled.
    RuleInactive,
    /// The rule, or each of its evaluators, is paused in the mode that refuses targets.
    RulePaused,
    /// The target belongs to the server itself.
    InternalEnvironment,
    /// The rule evaluates experiment items, and the observation is not the root of one.
    NotAnItem,
    /// A run links the trace as an item, and its root or the linked observation has not arrived in time.
    RootMissing,
    /// A condition does not hold.
    NotMatched {
        /// Index of the condition in the filter, from 0.
        index: usize,
        /// The condition as it was saved.
        condition: Value,
        /// The value of the target.
        actual: Value,
    },
    /// The target is not in the sample.
    SampledOut {
        /// The sampling value of the target, in `[0, 1)`.
        value: f64,
        /// The sampling rate.
        rate: f64,
    },
}

impl Refusal {
    /// The name of the counter.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::RuleInactive => "rule_inactive",
            Self::RulePaused => "rule_paused",
            Self::InternalEnvironment => "internal_environment",
            Self::NotAnItem => "not_an_item",
            Self::RootMissing => "root_missing",
            Self::NotMatched { .. } => "not_matched",
            Self::SampledOut { .. } => "sampled_out",
        }
    }

    /// A sentence for users.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::RuleInactive => "The rule is disabled.".to_owned(),
            Self::RulePaused => {
                "The rule, or each of its evaluators, is paused for a fault of its own.".to_owned()
            }
            Self::InternalEnvironment => {
                "The environment is reserved for traces of the server, which are never scored.".to_owned()
            }
            Self::NotAnItem => {
                "The rule scores experiment items, and this observation is not the root of one."
                    .to_owned()
            }
            Self::RootMissing => {
                "A run links the trace as an item, but its root or the linked observation did not arrive in time."
                    .to_owned()
            }
            Self::NotMatched { condition, actual, .. } => {
                let mut actual = actual.to_string();
                if let Some((end, _)) = actual.char_indices().nth(MAX_ACTUAL_CHARS) {
                    actual.truncate(end);
                    actual.push('…');
                }
                format!(
                    "The rule requires that {}; the value is {actual}.",
                    describe_condition(condition)
                )
            }
            Self::SampledOut { value, rate } => format!(
                "The rule scores {} % of the matching targets, and this target is not in the sample: its sampling \
                 number {value:.6} is not below {rate}.",
                percent(*rate)
            ),
        }
    }
}

/// A share in percent, with four digits or as many as distinguish it from 0 and 100.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let to_all = 100.0 - percent;
    let of = |part: f64| 3.0 - part.abs().log10().floor();
    let digits = match 0.0 < to_all && to_all < 0.1 {
        true => of(to_all),
        false => of(percent),
    };
    let digits = digits.clamp(0.0, 17.0);
    let text = format!("{percent:.*}", digits as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Decision for one evaluator version of a rule that takes the target.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignmentVerdict {
    /// The evaluator in the rule.
    pub assignment: AssignmentId,
    /// The number of the version, if it is a shadow version.
    pub shadow: Option<u32>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Verdict for one execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The execution is made.
    Make(Box<NewExecution>),
    /// The execution exists already.
    Duplicate(ExecutionId),
    /// No execution: a budget of this assignment is exhausted until the time.
    OverBudget(Timestamp),
    /// An execution exists that was made before this number of observations arrived, and the rule ignores
    /// late ones.
    Late(ExecutionId, u32),
}

/// Decision of a rule about a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// The rule does not take the target.
    Refused(Refusal),
    /// The rule takes the target.
    Taken {
        /// The sampling value of the target, in `[0, 1)`.
        sample: f64,
        /// The filter refuses the target because of its scores, and the target is in the audit sample of the
        /// rule.
        is_audit: bool,
        /// One per assignment, in order, and one per shadow version.
        verdicts: Vec<AssignmentVerdict>,
    },
}

/// A complete target.
#[derive(Clone, Copy)]
pub struct CompleteTarget<'a> {
    /// The tenant.
    pub project: &'a ProjectId,
    /// The target.
    pub target: &'a Target,
    /// Its environment.
    pub environment: &'a str,
    /// The columns that filters read.
    pub row: &'a dyn Row,
    /// When and why it became complete.
    pub completion: Completion,
    /// Observations of the whole trace or session, results of a run; 1 for an observation.
    pub n_observations: u32,
    /// Time of its last change.
    pub last_seen: Timestamp,
    /// The current time.
    pub now: Timestamp,
}

/// Whether targets of this environment must not be evaluated.
pub(crate) fn is_reserved(environment: &str) -> bool {
    !OPEN.contains(&environment)
        && (RESERVED_PREFIXES.iter().any(|prefix| environment.starts_with(prefix))
            || RESERVED_ALIASES.contains(&environment))
}

/// Whether the row is the root of an experiment item.
pub(crate) fn is_item(row: &dyn Row) -> bool {
    matches!(row.cell(ITEM_ROOT), Cell::Bool(true))
}

/// Whether the rule takes the target. The steps have the order of evaluation.md 1.5; the first refusal ends
/// them. `existing` are the existing executions of this rule over this target. Without them duplicates are
/// detected on insertion, since ids of executions are unique.
#[must_use]
pub fn decide(
    rule: &PreparedRule,
    complete: &CompleteTarget<'_>,
    existing: &[&Execution],
) -> Decision {
    if !rule.rule.enabled || rule.assignments.is_empty() {
        return Decision::Refused(Refusal::RuleInactive);
    }
    let mut assignments = rule.assignments.iter();
    let all_paused = assignments.all(|each| each.evaluator.refuses(complete.now));
    let paused = rule.rule.paused.as_ref();
    if all_paused || paused.is_some_and(|pause| pause.refuses(complete.now)) {
        return Decision::Refused(Refusal::RulePaused);
    }
    let (value, is_audit) = match select(rule, complete) {
        Ok(selected) => selected,
        Err(refusal) => return Decision::Refused(*refusal),
    };
    let verdicts = rule.assignments.iter().map(|assignment| AssignmentVerdict {
        assignment: assignment.id.clone(),
        shadow: assignment.shadow,
        verdict: verdict(rule, assignment, complete, existing, is_audit),
    });
    Decision::Taken { sample: value, is_audit, verdicts: verdicts.collect() }
}

/// Applies filter and sampling of a rule: the sampling value of the target, and whether it is taken for audit only.
///
/// # Errors
/// Why it is refused.
pub(crate) fn select(
    rule: &PreparedRule,
    complete: &CompleteTarget<'_>,
) -> Result<(f64, bool), Box<Refusal>> {
    if rule.rule.target == TargetKind::Experiment && !is_item(complete.row) {
        return Err(Box::new(Refusal::NotAnItem));
    }
    if is_reserved(complete.environment) {
        return Err(Box::new(Refusal::InternalEnvironment));
    }
    let mismatch = rule.filter().first_failing(complete.row);
    let is_audit = mismatch.is_some() && is_audited(rule, complete);
    if let Some(mismatch) = mismatch.filter(|_| !is_audit) {
        let condition = rule.rule.filter.sent().get(mismatch.index);
        return Err(Box::new(Refusal::NotMatched {
            index: mismatch.index,
            condition: condition.cloned().unwrap_or_default(),
            actual: mismatch.actual,
        }));
    }
    let salt = if rule.rule.sampling_independent { rule.rule.id.as_str() } else { "" };
    let value = sampling::value(salt, complete.target.sampled_by());
    let rate = rule.rule.sampling;
    if !sampling::is_selected(value, rate) {
        return Err(Box::new(Refusal::SampledOut { value, rate }));
    }
    Ok((value, is_audit))
}

/// Whether a waiting rule takes a target that its filter refuses only because of scores. Such targets show
/// whether the rules that wrote these scores decide well; targets refused for other reasons do not.
fn is_audited(rule: &PreparedRule, complete: &CompleteTarget<'_>) -> bool {
    let target = complete.target;
    let observation = target.observation().map_or("", |id| id.as_str());
    let salt = format!("audit/{}", rule.rule.id);
    let id = format!("{}/{observation}", target.sampled_by());
    !rule.rule.after.is_empty()
        && sampling::is_selected(sampling::value(&salt, &id), rule.rule.audit)
        && rule.filter().matches_but_for(&SCORE_COLUMNS, complete.row)
}

/// The verdict for one assignment, given the existing executions of its rule.
fn verdict(
    rule: &PreparedRule,
    assignment: &PreparedAssignment,
    complete: &CompleteTarget<'_>,
    existing: &[&Execution],
    is_audit: bool,
) -> Verdict {
    let evaluator = assignment.evaluator.id();
    let newest = existing
        .iter()
        .filter(|each| {
            each.made.evaluator_id == *evaluator && each.made.shadow == assignment.shadow
        })
        .max_by_key(|each| each.made.generation);
    let generation = match newest {
        // A shadow version sees the same data as the live version.
        None if assignment.shadow.is_some() && rule.rule.late == LatePolicy::Ignore => {
            match live(evaluator, complete, existing) {
                Some(live) => {
                    return Verdict::Late(live.made.id.clone(), n_late(live, complete));
                }
                None => 0,
            }
        }
        None => 0,
        Some(newest) => {
            // An execution that waits for a firing reads the target then.
            let n_late = match newest.awaited_firing() {
                Some(_) => 0,
                None => n_late(newest, complete),
            };
            let newest = &newest.made;
            let is_whole = complete.target.is_whole();
            let id = newest.id.clone();
            match (n_late, rule.rule.late) {
                (1.., LatePolicy::Rescore) if is_whole => newest.generation + 1,
                (1.., LatePolicy::Ignore) if is_whole => return Verdict::Late(id, n_late),
                _ => return Verdict::Duplicate(id),
            }
        }
    };
    if let Some(until) = assignment.skipped_until.filter(|until| complete.now < *until) {
        return Verdict::OverBudget(until);
    }
    let (project, rule_id) = (complete.project, &rule.rule.id);
    let in_key = match assignment.shadow {
        Some(version) => Cow::Owned(shadow_rule(rule_id, version)),
        None => Cow::Borrowed(rule_id.as_str()),
    };
    let key = ExecutionKey::live(project, &in_key, evaluator, complete.target, generation);
    Verdict::Make(Box::new(NewExecution {
        id: key.execution_id(),
        origin: ExecutionOrigin::Rule,
        rule_id: rule_id.clone(),
        assignment_id: assignment.id.clone(),
        evaluator_id: evaluator.clone(),
        target: complete.target.clone(),
        shadow: assignment.shadow,
        generation,
        inclusion_probability: match is_audit {
            true => rule.rule.sampling.min(1.0) * rule.rule.audit,
            false => rule.rule.sampling.min(1.0),
        },
        completion: complete.completion.reason,
        n_observations: complete.n_observations,
        is_audit,
    }))
}

/// The newest execution of the live version, if the target has changed since.
fn live<'e>(
    evaluator: &EvaluatorId,
    complete: &CompleteTarget<'_>,
    existing: &[&'e Execution],
) -> Option<&'e Execution> {
    let existing = existing.iter().copied();
    let of_evaluator =
        existing.filter(|each| each.made.evaluator_id == *evaluator && each.made.shadow.is_none());
    let newest = of_evaluator.max_by_key(|each| each.made.generation)?;
    (0 < n_late(newest, complete) && complete.target.is_whole()).then_some(newest)
}

/// Number of observations that arrived after an execution was made. A session may have lost a trace of as
/// many observations in the meantime; then the number is 1.
fn n_late(newest: &Execution, complete: &CompleteTarget<'_>) -> u32 {
    let more = complete.n_observations.saturating_sub(newest.made.n_observations);
    let is_changed = newest.created_at < complete.last_seen;
    match complete.target {
        Target::Session(_) | Target::Run(_) => more.max(u32::from(is_changed)),
        Target::Observation(..) | Target::Trace(_) => more,
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_share_has_four_digits_and_is_zero_only_where_it_is_none() {
        for (share, expected) in [
            (0.0, "0"),
            (1.0, "100"),
            (0.1, "10"),
            (1.0 / 3.0, "33.33"),
            (0.001_25, "0.125"),
            (1e-7, "0.00001"),
            (0.999_9, "99.99"),
            (0.999_96, "99.996"),
        ] {
            assert_eq!(percent(share), expected);
        }
    }
}
