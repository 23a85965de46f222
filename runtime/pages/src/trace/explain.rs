//! Explains for each rule why a target has no score of it.

use std::collections::{HashMap, HashSet};

use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{Execution, ExecutionState, Rule, Target};
use perpend_domain::ids::{EvaluatorId, RuleId};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_scheduler::{Explanation, ExplanationStep, Refusal};
use perpend_views::{
    Html, ResourceLink, RuleOutcome, RuleRange, Text, Tone, execution_href, utc_time,
};

use crate::request::viewer::Viewer;
use crate::state::App;

/// Rules read per query.
const PAGE_SIZE: u32 = 200;

type Fact = (&'static str, Html);

/// The outcome of a rule, or of one of its evaluators, without names.
struct OutcomeDraft {
    state: &'static str,
    tone: Tone,
    sentence: String,
    facts: Vec<Fact>,
    requeue: Option<String>,
    execution_href: Option<String>,
}

impl OutcomeDraft {
    fn new(state: &'static str, tone: Tone, sentence: impl Into<String>) -> Self {
        Self {
            state,
            tone,
            sentence: sentence.into(),
            facts: Vec::new(),
            requeue: None,
            execution_href: None,
        }
    }

    fn fact(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.facts.push((name, Text::from(value.into()).into()));
        self
    }

    fn time(mut self, name: &'static str, at: Timestamp) -> Self {
        self.facts.push((name, utc_time(at)));
        self
    }

    fn outcome(self, rule: ResourceLink, evaluators: Vec<ResourceLink>) -> RuleOutcome {
        RuleOutcome {
            rule,
            evaluators,
            state: self.state,
            tone: self.tone,
            sentence: Text::from(self.sentence),
            facts: self.facts,
            requeue: self.requeue,
            execution_href: self.execution_href,
            score_names: Vec::new(),
        }
    }
}

/// Outcomes of the rules that apply to a kind of target.
pub(crate) struct RuleOutcomes {
    pub(crate) all: Vec<RuleOutcome>,
    /// Completed executions without a stored score.
    pub(crate) without_score: usize,
    /// The rules on this page.
    pub(crate) range: RuleRange,
}

/// Outcomes of up to [`RuleRange::LIMIT`] rules, without evaluators that have `scored` the target.
pub(crate) async fn rule_outcomes(
    app: &App,
    viewer: &Viewer,
    target: &Target,
    scored: &HashSet<(RuleId, EvaluatorId)>,
    from: usize,
) -> Result<RuleOutcomes, Problem> {
    let rules = rules_for(app, viewer, target).await?;
    let n_all = rules.len();
    let from = from.min(n_all.saturating_sub(1));
    let page = rules.get(from..n_all.min(from + RuleRange::LIMIT));
    let page = page.unwrap_or_default();
    let mut names = EvaluatorNames::default();
    let mut outcomes = Vec::new();
    let mut without_score = 0;
    for rule in page {
        let is_scored =
            |evaluator: &EvaluatorId| scored.contains(&(rule.id.clone(), evaluator.clone()));
        let open: Vec<&EvaluatorId> = rule
            .assignments
            .iter()
            .map(|assignment| &assignment.evaluator_id)
            .filter(|evaluator| !is_scored(evaluator))
            .collect();
        if open.is_empty() && !rule.assignments.is_empty() {
            continue;
        }
        names.read(app, viewer, &open).await?;
        let named = ResourceLink::new(&rule.name, rule.id.as_str());
        let explanation = app.scheduler.explain(&viewer.project, rule, target).await?;
        let mut pending: Vec<&EvaluatorId> = Vec::new();
        for evaluator in open {
            match last_execution(&explanation, evaluator) {
                Some(execution) => {
                    let mut draft = execution_outcome(execution);
                    without_score += usize::from(execution.state == ExecutionState::Completed);
                    let may =
                        execution.state == ExecutionState::Failed && viewer.may(EvaluatorWrite);
                    let href = execution_href(&viewer.base(), execution.made.id.as_str());
                    draft.requeue = may.then(|| format!("{href}/requeue"));
                    draft.execution_href = Some(href);
                    outcomes.push(draft.outcome(named.clone(), names.links(&[evaluator])));
                }
                None => pending.push(evaluator),
            }
        }
        let has_more = !pending.is_empty() || rule.assignments.is_empty();
        if has_more && let Some(draft) = step_outcome(&explanation.step) {
            outcomes.push(draft.outcome(named, names.links(&pending)));
        }
    }
    outcomes.sort_by(|a, b| {
        let rank = |outcome: &RuleOutcome| match outcome.tone {
            Tone::Bad => 0,
            Tone::Waiting => 1,
            Tone::Plain | Tone::Good => 2,
        };
        let by_rank = rank(a).cmp(&rank(b));
        by_rank.then_with(|| a.rule.name.cmp(&b.rule.name))
    });
    Ok(RuleOutcomes {
        all: outcomes,
        without_score,
        range: RuleRange { from, n: page.len(), n_all },
    })
}

/// All rules for this kind of target.
async fn rules_for(app: &App, viewer: &Viewer, target: &Target) -> Result<Vec<Rule>, Problem> {
    let catalog = &app.store.catalog;
    let mut rules: Vec<Rule> = Vec::new();
    let mut cursor = None;
    loop {
        let page = catalog.rules(&viewer.project, cursor.as_ref(), PAGE_SIZE);
        let page = page.await?;
        let applies = |rule: &Rule| rule.target.is_for(target);
        rules.extend(page.items.into_iter().filter(applies));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(rules);
        }
    }
}

/// Names of evaluators, each read once; absent for deleted ones.
#[derive(Default)]
struct EvaluatorNames(HashMap<EvaluatorId, Option<String>>);

impl EvaluatorNames {
    async fn read(
        &mut self,
        app: &App,
        viewer: &Viewer,
        evaluators: &[&EvaluatorId],
    ) -> Result<(), Problem> {
        for &id in evaluators {
            if !self.0.contains_key(id) {
                let found = app.store.catalog.evaluator(&viewer.project, id).await?;
                self.0.insert(id.clone(), found.map(|found| found.name));
            }
        }
        Ok(())
    }

    /// Links to the evaluators that still exist.
    fn links(&self, evaluators: &[&EvaluatorId]) -> Vec<ResourceLink> {
        let named = evaluators.iter().filter_map(|id| {
            let name = self.0.get::<EvaluatorId>(id)?.as_ref()?;
            Some(ResourceLink::new(name, id.as_str()))
        });
        named.collect()
    }
}

fn last_execution<'a>(
    explanation: &'a Explanation,
    evaluator: &EvaluatorId,
) -> Option<&'a Execution> {
    let mut executions = explanation.executions.iter().rev();
    executions.find(|execution| execution.made.evaluator_id == *evaluator)
}

fn execution_outcome(execution: &Execution) -> OutcomeDraft {
    let message = execution.error_message.as_deref().unwrap_or("No details recorded.");
    let draft = match execution.state {
        ExecutionState::Pending => {
            OutcomeDraft::new("waiting", Tone::Waiting, "Waiting for a worker.")
        }
        ExecutionState::Running => {
            OutcomeDraft::new("running", Tone::Waiting, "Evaluation in progress.")
        }
        ExecutionState::Delayed if execution.awaited_firing().is_some() => {
            let why = "It is evaluated when the schedule of the rule fires.";
            OutcomeDraft::new("waiting", Tone::Waiting, why).time("Firing at", execution.due_at)
        }
        ExecutionState::Delayed => OutcomeDraft::new("will retry", Tone::Waiting, message)
            .time("Next attempt", execution.due_at),
        ExecutionState::Held => {
            OutcomeDraft::new("held", Tone::Waiting, message).time("Expires at", execution.due_at)
        }
        ExecutionState::Completed => {
            OutcomeDraft::new("done", Tone::Plain, "Scored; the score was deleted afterwards.")
        }
        ExecutionState::Skipped => OutcomeDraft::new("nothing to measure", Tone::Plain, message),
        ExecutionState::Failed => OutcomeDraft::new("failed", Tone::Bad, message),
        ExecutionState::Cancelled => OutcomeDraft::new("cancelled", Tone::Plain, message),
    };
    let draft = match &execution.error_class {
        Some(class) => draft.fact("Class", class.as_str()),
        None => draft,
    };
    let draft = if execution.attempts > 1 || execution.state == ExecutionState::Failed {
        draft.fact("Attempts", execution.attempts.to_string())
    } else {
        draft
    };
    draft.fact("Execution", execution.made.id.as_str())
}

/// The outcome of a step of the scheduler; absent if there is nothing to show.
fn step_outcome(step: &ExplanationStep) -> Option<OutcomeDraft> {
    let draft = |state, tone| OutcomeDraft::new(state, tone, step.sentence());
    Some(match step {
        // The target is shown on the page, so it is stored by now.
        ExplanationStep::NoSuchTarget => return None,
        ExplanationStep::NotComplete { .. }
        | ExplanationStep::WaitingForRule { .. }
        | ExplanationStep::WaitingForFiring { .. }
        | ExplanationStep::Due => draft("waiting", Tone::Waiting),
        ExplanationStep::OlderThanRule { arrived_at, rule_created_at, .. } => {
            draft("older than the rule", Tone::Plain)
                .time("Arrived", *arrived_at)
                .time("Rule created", *rule_created_at)
        }
        ExplanationStep::Taken { sample, rate, .. } => draft("not scored", Tone::Plain)
            .fact("Sampling value", six_decimals(*sample))
            .fact("Sample rate", rate.to_string()),
        ExplanationStep::Refused(refusal) => match refusal {
            Refusal::NotAnItem => return None,
            Refusal::RuleInactive => draft("off", Tone::Plain),
            Refusal::RulePaused => draft("paused", Tone::Waiting),
            Refusal::InternalEnvironment => draft("excluded", Tone::Plain),
            Refusal::RootMissing => draft("root missing", Tone::Bad),
            Refusal::NotMatched { .. } => draft("not matched", Tone::Plain),
            Refusal::SampledOut { .. } => draft("not sampled", Tone::Plain),
        },
    })
}

fn six_decimals(value: f64) -> String {
    format!("{value:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_is_explained_in_one_sentence_without_facts() {
        let condition =
            json!({"type": "string", "column": "environment", "operator": "=", "value": "prod"});
        let actual = json!("staging");
        let draft = step_outcome(&ExplanationStep::Refused(Refusal::NotMatched {
            index: 1,
            condition,
            actual,
        }))
        .unwrap();
        assert_eq!(
            draft.sentence,
            "The rule requires that environment is \"prod\"; the value is \"staging\"."
        );
        let draft =
            step_outcome(&ExplanationStep::Refused(Refusal::SampledOut { value: 0.5, rate: 0.1 }))
                .unwrap();
        assert!(draft.sentence.contains("10 %") && draft.sentence.contains("0.500000"));
        assert!(draft.facts.is_empty());
    }

    #[test]
    fn a_missing_target_has_no_outcome() {
        assert!(step_outcome(&ExplanationStep::NoSuchTarget).is_none());
    }
}
