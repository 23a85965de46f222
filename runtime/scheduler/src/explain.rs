//! Explains why a target has no score (evaluation.md 1.5).

use std::collections::HashSet;
use std::sync::Arc;

use perpend_domain::evaluation::{Execution, ExecutionState, LatePolicy, Rule, Target, TargetKind};
use perpend_domain::ids::{
    AssignmentId, EvaluatorId, ExecutionId, ObservationId, ProjectId, RuleId, TraceId,
};
use perpend_domain::time::Timestamp;
use perpend_executions::Watch;

use crate::Scheduler;
use crate::catalog::{PreparedRule, prepare_alone};
use crate::completeness::{Completion, completion, observation_completion};
use crate::decide::{AssignmentVerdict, CompleteTarget, Decision, Refusal, Verdict, decide};
use crate::matcher::{TraceData, of_rule};
use crate::rule_dependencies::is_open;
use crate::target::ObservationRow;
use crate::whole_targets::began_at;

/// State of a target under a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The step that refused the target, or the last step.
    pub step: ExplanationStep,
    /// Executions of the rule over the target, oldest first, regardless of the current state of the rule.
    pub executions: Vec<Execution>,
}

/// The first step that refuses the target, or the result of all steps.
#[derive(Clone, Debug, PartialEq)]
pub enum ExplanationStep {
    /// The project has no such target.
    NoSuchTarget,
    /// The target is not complete yet.
    NotComplete {
        /// When it will be complete unless more data arrives; `None` if it has not ended.
        complete_at: Option<Timestamp>,
    },
    /// The rule waits until another rule has ended with the target.
    WaitingForRule {
        /// The other rule.
        rule: RuleId,
        /// Its name.
        name: String,
    },
    /// The target is complete, and its examination is due.
    Due,
    /// The rule takes the target at the next firing of its schedule.
    WaitingForFiring {
        /// The firing.
        firing_at: Timestamp,
    },
    /// The rule does not take the target.
    Refused(Refusal),
    /// The rule was made after the target had arrived.
    OlderThanRule {
        /// Kind of the target.
        target: TargetKind,
        /// When the last part of it arrived.
        arrived_at: Timestamp,
        /// When the rule was made.
        rule_created_at: Timestamp,
    },
    /// The rule takes the target.
    Taken {
        /// The sampling value of the target, in `[0, 1)`.
        sample: f64,
        /// The sampling rate.
        rate: f64,
        /// When and why it became complete.
        completion: Completion,
        /// The filter refuses the target because of its scores, and the target is in the audit sample of the
        /// rule.
        is_audit: bool,
        /// Reason of the held executions, if there are any.
        held: Option<String>,
        /// When the rule was last changed, if that was after the target arrived.
        changed_at: Option<Timestamp>,
        /// One per assignment, in order, and one per shadow version.
        assignments: Vec<AssignmentExplanation>,
    },
}

impl ExplanationStep {
    /// The name of the step.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoSuchTarget => "no_such_target",
            Self::NotComplete { .. } => "not_complete",
            Self::WaitingForRule { .. } => "waiting_for_rule",
            Self::Due => "due",
            Self::WaitingForFiring { .. } => "waiting_for_firing",
            Self::Refused(refusal) => refusal.reason(),
            Self::OlderThanRule { .. } => "older_than_rule",
            Self::Taken { .. } => "taken",
        }
    }

    /// A sentence for users.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::NoSuchTarget => {
                "The project has no such target; it may not have arrived yet.".to_owned()
            }
            Self::NotComplete { complete_at: None } => "The target has not ended yet.".to_owned(),
            Self::NotComplete { complete_at: Some(at) } => format!(
                "The target is not complete yet; it will be at {at} if nothing more arrives."
            ),
            Self::WaitingForRule { name, .. } => {
                format!("The rule waits until the rule {name:?} has ended with the target.")
            }
            Self::Due => "The target is complete, and the rule is about to look at it.".to_owned(),
            Self::WaitingForFiring { firing_at } => format!(
                "The rule takes the target; it is evaluated when the schedule of the rule fires at {firing_at}."
            ),
            Self::Refused(refusal) => refusal.sentence(),
            Self::OlderThanRule { target, .. } => format!(
                "The {} arrived before the rule existed; a rule scores what arrives after it was made, and a backfill what is stored already.",
                match target {
                    TargetKind::Observation => "observation",
                    TargetKind::Experiment => "experiment item",
                    TargetKind::Trace => "trace",
                    TargetKind::Session => "session",
                    TargetKind::Run => "run",
                }
            ),
            Self::Taken { assignments, is_audit, held, changed_at, .. } => {
                let is_made = |each: &&AssignmentExplanation| each.execution.is_some();
                let n_made = assignments.iter().filter(is_made).count();
                if let Some(why) = held {
                    return format!("The rule takes the target; its executions are held: {why}.");
                }
                if n_made == assignments.len() && *is_audit {
                    return "Only its scores speak against the target, and the audit of the rule takes it nevertheless; \
                            the executions show the outcome."
                        .to_owned();
                }
                if n_made == assignments.len() {
                    return "The rule takes the target; the executions show the outcome."
                        .to_owned();
                }
                if assignments.iter().any(|each| each.skipped_until.is_some()) {
                    return "A budget is spent: until it is renewed, the rule leaves its targets without a score."
                        .to_owned();
                }
                let scope = if n_made == 0 { "" } else { " for some of its evaluators" };
                let since = match changed_at {
                    Some(at) => format!("the rule was changed at {at}, after the target arrived"),
                    None => "the target, its trace or an evaluator was changed after the decision"
                        .to_owned(),
                };
                format!(
                    "The rule would take the target as it is now, but made no execution{scope}: {since}. Its \
                     counters have the reason of the decision."
                )
            }
        }
    }
}

/// One assignment of a rule that takes the target.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignmentExplanation {
    /// The assignment.
    pub assignment: AssignmentId,
    /// Its evaluator.
    pub evaluator: EvaluatorId,
    /// The number of the version, if it is a shadow version.
    pub shadow: Option<u32>,
    /// The existing execution; `None` if one would be made when the target changes.
    pub execution: Option<ExecutionId>,
    /// Ignored observations that arrived after the execution was made.
    pub n_late: u32,
    /// No execution is made before this time because a budget is exhausted.
    pub skipped_until: Option<Timestamp>,
}

impl Scheduler {
    /// Applies the decision of the matcher to one target and returns the step that decided.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn explain(
        &self,
        project: &ProjectId,
        rule: &Rule,
        target: &Target,
    ) -> Result<Explanation, perpend_db::Error> {
        let store = &self.inner.deps.store;
        let all = store.ledger.executions_over(project, target).await?;
        let existing = of_rule(&all, &rule.id, target);
        let mut over = HashSet::new();
        let step = self.step_of(project, rule, target, (&all, &mut over));
        let step = step.await?;
        let executions = existing.into_iter().cloned().collect();
        Ok(Explanation { step, executions })
    }

    /// `over` collects rules that have ended with the target.
    async fn step_of(
        &self,
        project: &ProjectId,
        rule: &Rule,
        target: &Target,
        (all, over): (&[Execution], &mut HashSet<RuleId>),
    ) -> Result<ExplanationStep, perpend_db::Error> {
        let store = &self.inner.deps.store;
        if let (TargetKind::Experiment, Target::Trace(trace)) = (rule.target, target) {
            return self.inner.explain_missing(project, rule, trace).await;
        }
        let existing = &of_rule(all, &rule.id, target);
        let prepared = Arc::new(prepare_alone(store, project, rule.clone()).await?);
        let context = ExplainContext {
            project,
            rule: &prepared,
            target,
            existing,
            watch: store.ledger.watch(project, target).await?,
            waits_for: self.waits_for(project, rule, target, (all, over)).await?,
        };
        match target {
            Target::Observation(trace, id) => self.of_observation(&context, trace, id).await,
            Target::Trace(_) | Target::Session(_) | Target::Run(_) => self.of_whole(&context).await,
        }
    }

    /// The first rule for which this one waits.
    async fn waits_for(
        &self,
        project: &ProjectId,
        rule: &Rule,
        target: &Target,
        (all, over): (&[Execution], &mut HashSet<RuleId>),
    ) -> Result<Option<ExplanationStep>, perpend_db::Error> {
        let store = &self.inner.deps.store;
        for id in &rule.after {
            if over.contains(id) {
                continue;
            }
            let other = store.catalog.rule(project, id).await?;
            let Some(other) = other.filter(|other| other.enabled) else {
                continue;
            };
            let is_of_parts = other.target.size() < target.kind().size();
            let is_waited_for = if is_of_parts {
                let traces = self.inner.traces_of(project, target).await?;
                store.ledger.is_open_in(project, &traces, id).await?
            } else {
                let existing = of_rule(all, id, target);
                let step = match existing.is_empty() {
                    true => {
                        Some(Box::pin(self.step_of(project, &other, target, (all, over))).await?)
                    }
                    false => None,
                };
                is_open(&existing)
                    || matches!(
                        step,
                        Some(
                            ExplanationStep::NotComplete { .. }
                                | ExplanationStep::WaitingForRule { .. }
                        )
                    )
            };
            if is_waited_for {
                return Ok(Some(ExplanationStep::WaitingForRule {
                    rule: other.id,
                    name: other.name,
                }));
            }
            over.insert(id.clone());
        }
        Ok(None)
    }

    async fn of_observation(
        &self,
        context: &ExplainContext<'_>,
        trace_id: &TraceId,
        id: &ObservationId,
    ) -> Result<ExplanationStep, perpend_db::Error> {
        let (project, telemetry) = (context.project, &self.inner.deps.store.telemetry);
        let trace = telemetry.target_trace(project, trace_id).await?;
        let progress = telemetry.trace_progress(project, std::slice::from_ref(trace_id));
        let (Some(trace), Some((_, progress))) = (trace, progress.await?.pop()) else {
            return Ok(ExplanationStep::NoSuchTarget);
        };
        let found = telemetry.observation_of(project, trace_id, id);
        let Some(mut stored) = found.await? else {
            return Ok(ExplanationStep::NoSuchTarget);
        };
        // The target of a rule of experiments arrives with the later of the observation and its link.
        let mut arrived_at = stored.updated_at;
        if context.rule.reads_experiment {
            let linked_at = self.inner.attach_links(project, vec![&mut stored.observation]).await?;
            arrived_at = linked_at.map_or(arrived_at, |at| arrived_at.max(at));
        }
        let own = &stored.observation;
        if own.end.is_none() {
            return Ok(ExplanationStep::NotComplete { complete_at: None });
        }
        // A target without a watch no longer waits.
        let waits = context.watch.is_some() && context.rule.waits_for_trace(own);
        let changed_at = stored.updated_at;
        let completion = observation_completion(
            own,
            changed_at,
            &context.rule.rule.timing,
            Some(&progress).filter(|_| waits),
        );
        let reads_scores = context.rule.reads_scores();
        let scores = self.inner.trace_scores(project, trace_id, reads_scores);
        let of_trace = TraceData { scores: scores.await?, ..TraceData::default() };
        let scores = of_trace.scores_on(own);
        let row = ObservationRow {
            observation: own,
            trace: context.rule.reads_trace.then_some(&trace),
            scores: &scores,
        };
        let complete = CompleteTarget {
            project,
            target: context.target,
            environment: &own.environment,
            row: &row,
            completion,
            n_observations: 1,
            last_seen: changed_at,
            now: self.inner.deps.clock.now(),
        };
        Ok(self.answer(context, &complete, arrived_at))
    }

    async fn of_whole(
        &self,
        context: &ExplainContext<'_>,
    ) -> Result<ExplanationStep, perpend_db::Error> {
        let (project, target, rule) = (context.project, context.target, context.rule);
        let whole = self.inner.whole(project, target, &[rule]).await?;
        let progress = self.inner.progress(project, target).await?;
        let (Some(whole), Some(progress)) = (whole, progress) else {
            return Ok(ExplanationStep::NoSuchTarget);
        };
        let began_at = began_at(&progress, context.watch.as_ref(), context.existing);
        let completion = completion(target.kind(), &progress, &rule.rule.timing, began_at);
        let row = whole.row(completion);
        let now = self.inner.deps.clock.now();
        let complete = whole.complete((project, target), &*row, (completion, &progress), now);
        Ok(self.answer(context, &complete, progress.last_seen))
    }

    /// `arrived_at` is the time of the last change of the target.
    fn answer(
        &self,
        context: &ExplainContext<'_>,
        complete: &CompleteTarget<'_>,
        arrived_at: Timestamp,
    ) -> ExplanationStep {
        let completion = complete.completion;
        let scores_again = context.rule.rule.late == LatePolicy::Rescore && context.watch.is_some();
        let waits = context.existing.is_empty() || scores_again;
        if waits && self.inner.deps.clock.now() < completion.at {
            let complete_at = Some(completion.at);
            return ExplanationStep::NotComplete { complete_at };
        }
        let rule = &context.rule.rule;
        if let Some(step) = context.waits_for.clone().filter(|_| waits && rule.enabled) {
            return step;
        }
        let now = self.inner.deps.clock.now();
        let mut existing = context.existing.iter();
        if let Some(firing_at) =
            existing.find_map(|each| each.awaited_firing().filter(|at| now < *at))
        {
            return ExplanationStep::WaitingForFiring { firing_at };
        }
        let is_decided_later = context.watch.as_ref().is_some_and(|watch| {
            watch.looked_at < completion.at || watch.waiting.contains(&rule.id)
        });
        let decision = decide(context.rule, complete, context.existing);
        let is_taken = matches!(decision, Decision::Taken { .. });
        if is_taken
            && context.existing.is_empty()
            && rule.created_at <= arrived_at
            && is_decided_later
        {
            return ExplanationStep::Due;
        }
        if is_taken && context.existing.is_empty() && arrived_at < rule.created_at {
            return ExplanationStep::OlderThanRule {
                target: rule.target,
                arrived_at,
                rule_created_at: rule.created_at,
            };
        }
        let taken = AcceptedTarget {
            held: held(context),
            changed_at: Some(rule.updated_at).filter(|at| arrived_at < *at),
        };
        answer(rule, (decision, completion), taken)
    }
}

/// Additional facts about a target that is taken.
struct AcceptedTarget {
    held: Option<String>,
    changed_at: Option<Timestamp>,
}

/// Reason of the first held execution.
fn held(context: &ExplainContext<'_>) -> Option<String> {
    let mut existing = context.existing.iter();
    let held = existing.find(|each| each.state == ExecutionState::Held)?;
    let message = held.error_message.as_deref().unwrap_or("the reason is not known");
    Some(message.trim_end_matches('.').to_owned())
}

/// Context of the explanation of one rule.
struct ExplainContext<'a> {
    project: &'a ProjectId,
    rule: &'a Arc<PreparedRule>,
    target: &'a Target,
    existing: &'a [&'a Execution],
    watch: Option<Watch>,
    waits_for: Option<ExplanationStep>,
}

fn answer(
    rule: &Rule,
    (decision, completion): (Decision, Completion),
    AcceptedTarget { held, changed_at }: AcceptedTarget,
) -> ExplanationStep {
    let (sample, is_audit, verdicts) = match decision {
        Decision::Refused(refusal) => return ExplanationStep::Refused(refusal),
        Decision::Taken { sample, is_audit, verdicts } => (sample, is_audit, verdicts),
    };
    let explain = |assignment_verdict: AssignmentVerdict| {
        let (mut n_late, mut skipped_until) = (0, None);
        let execution = match assignment_verdict.verdict {
            Verdict::Make(_) => None,
            Verdict::Duplicate(id) => Some(id),
            Verdict::Late(id, n) => {
                n_late = n;
                Some(id)
            }
            Verdict::OverBudget(until) => {
                skipped_until = Some(until);
                None
            }
        };
        let mut all = rule.assignments.iter();
        let used = all.find(|each| each.id == assignment_verdict.assignment)?;
        Some(AssignmentExplanation {
            evaluator: used.evaluator_id.clone(),
            shadow: assignment_verdict.shadow,
            assignment: assignment_verdict.assignment,
            execution,
            n_late,
            skipped_until,
        })
    };
    ExplanationStep::Taken {
        sample,
        rate: rule.sampling,
        completion,
        is_audit,
        held,
        changed_at,
        assignments: verdicts.into_iter().filter_map(explain).collect(),
    }
}
