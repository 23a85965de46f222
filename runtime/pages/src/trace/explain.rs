//! What each rule did with a target that it gave no score: the scheduler's answer in sentences.

use std::collections::{HashMap, HashSet};

use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{Execution, ExecutionState, Rule, Target};
use perpend_domain::ids::{EvaluatorId, RuleId};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_scheduler::{Explanation, Refusal, Step};
use perpend_views::{Html, ResourceLink, RuleOutcome, RuleRange, Text, Tone, segment, utc_time};

use crate::request::viewer::Viewer;
use crate::state::App;

/// Rules read at a time.
const PER_READ: u32 = 200;

type Fact = (&'static str, Html);

/// What is to be said about a rule, or one evaluator of it.
struct VerdictDraft {
    state: &'static str,
    tone: Tone,
    sentence: String,
    facts: Vec<Fact>,
    requeue: Option<String>,
}

impl VerdictDraft {
    fn new(state: &'static str, tone: Tone, sentence: impl Into<String>) -> Self {
        Self { state, tone, sentence: sentence.into(), facts: Vec::new(), requeue: None }
    }

    fn fact(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.facts.push((name, Text::from(value.into()).into()));
        self
    }

    fn at(mut self, name: &'static str, at: Timestamp) -> Self {
        self.facts.push((name, utc_time(at)));
        self
    }

    fn verdict(self, rule: ResourceLink, evaluators: Vec<ResourceLink>) -> RuleOutcome {
        RuleOutcome {
            rule,
            evaluators,
            state: self.state,
            tone: self.tone,
            sentence: Text::from(self.sentence),
            facts: self.facts,
            requeue: self.requeue,
            score_names: Vec::new(),
        }
    }
}

/// What is said about the rules for a target.
pub(crate) struct Verdicts {
    pub(crate) all: Vec<RuleOutcome>,
    /// Executions that scored the target, with no such score.
    pub(crate) without_score: usize,
    pub(crate) asked: RuleRange,
}

/// One verdict for each of a page of the rules for such targets that has not `scored` this one with each of its evaluators.
pub(crate) async fn verdicts(
    app: &App,
    viewer: &Viewer,
    target: &Target,
    scored: &HashSet<(RuleId, EvaluatorId)>,
    from: usize,
) -> Result<Verdicts, Problem> {
    let rules = rules_for(app, viewer, target).await?;
    let n_all = rules.len();
    let from = from.min(n_all.saturating_sub(1));
    let asked = rules.get(from..n_all.min(from + RuleRange::LIMIT));
    let asked = asked.unwrap_or_default();
    let mut names = EvaluatorNames::default();
    let mut verdicts = Vec::new();
    let mut without_score = 0;
    for rule in asked {
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
                    let mut draft = of_execution(execution);
                    without_score += usize::from(execution.state == ExecutionState::Completed);
                    let may =
                        execution.state == ExecutionState::Failed && viewer.may(EvaluatorWrite);
                    draft.requeue = may.then(|| {
                        let id = segment(execution.made.id.as_str());
                        format!("{}/executions/{id}/requeue", viewer.base())
                    });
                    verdicts.push(draft.verdict(named.clone(), names.of(&[evaluator])));
                }
                None => pending.push(evaluator),
            }
        }
        let has_more = !pending.is_empty() || rule.assignments.is_empty();
        if has_more && let Some(draft) = of_step(&explanation.step) {
            verdicts.push(draft.verdict(named, names.of(&pending)));
        }
    }
    verdicts.sort_by(|a, b| {
        let rank = |verdict: &RuleOutcome| match verdict.tone {
            Tone::Bad => 0,
            Tone::Waiting => 1,
            Tone::Plain | Tone::Good => 2,
        };
        let by_rank = rank(a).cmp(&rank(b));
        by_rank.then_with(|| a.rule.name.cmp(&b.rule.name))
    });
    Ok(Verdicts { all: verdicts, without_score, asked: RuleRange { from, n: asked.len(), n_all } })
}

/// All rules for such targets.
async fn rules_for(app: &App, viewer: &Viewer, target: &Target) -> Result<Vec<Rule>, Problem> {
    let catalog = &app.store.catalog;
    let mut rules: Vec<Rule> = Vec::new();
    let mut place = None;
    loop {
        let page = catalog.rules(&viewer.project, place.as_ref(), PER_READ);
        let page = page.await?;
        let is_for_it = |rule: &Rule| rule.target.is_for(target);
        rules.extend(page.items.into_iter().filter(is_for_it));
        place = page.next;
        if place.is_none() {
            return Ok(rules);
        }
    }
}

/// The evaluators of rules by their names, each read once.
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

    /// Of these those that are still there.
    fn of(&self, evaluators: &[&EvaluatorId]) -> Vec<ResourceLink> {
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

fn of_execution(execution: &Execution) -> VerdictDraft {
    let message = execution.error_message.as_deref().unwrap_or("No more is known.");
    let draft = match execution.state {
        ExecutionState::Pending => {
            VerdictDraft::new("waiting", Tone::Waiting, "Waits for a worker.")
        }
        ExecutionState::Running => {
            VerdictDraft::new("running", Tone::Waiting, "Is being evaluated now.")
        }
        ExecutionState::Delayed => VerdictDraft::new("will retry", Tone::Waiting, message)
            .at("Next attempt", execution.due_at),
        ExecutionState::Held => {
            VerdictDraft::new("held", Tone::Waiting, message).at("Given up at", execution.due_at)
        }
        ExecutionState::Completed => {
            VerdictDraft::new("done", Tone::Plain, "It was scored; the score is no longer there.")
        }
        ExecutionState::Skipped => VerdictDraft::new("nothing to measure", Tone::Plain, message),
        ExecutionState::Failed => VerdictDraft::new("failed", Tone::Bad, message),
        ExecutionState::Cancelled => VerdictDraft::new("cancelled", Tone::Plain, message),
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

/// The scheduler's sentence, with a state and the facts behind it.
fn of_step(step: &Step) -> Option<VerdictDraft> {
    let draft = |state, tone| VerdictDraft::new(state, tone, step.sentence());
    Some(match step {
        // The target is on the page: it was stored a moment ago.
        Step::NoSuchTarget => return None,
        Step::NotComplete { .. } | Step::WaitingForRule { .. } | Step::Due => {
            draft("waiting", Tone::Waiting)
        }
        Step::OlderThanRule { arrived_at, rule_created_at, .. } => {
            draft("older than the rule", Tone::Plain)
                .at("Arrived", *arrived_at)
                .at("Rule made", *rule_created_at)
        }
        Step::Taken { sample, rate, .. } => draft("not scored", Tone::Plain)
            .fact("Sampling number", sampled(*sample))
            .fact("Rate", rate.to_string()),
        Step::Refused(refusal) => match refusal {
            Refusal::NotAnItem => return None,
            Refusal::RuleInactive => draft("off", Tone::Plain),
            Refusal::RulePaused => draft("paused", Tone::Waiting),
            Refusal::InternalEnvironment => draft("left out", Tone::Plain),
            Refusal::NotMatched { .. } => draft("not matched", Tone::Plain),
            Refusal::SampledOut { .. } => draft("not sampled", Tone::Plain),
        },
    })
}

fn sampled(value: f64) -> String {
    format!("{value:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_refusal_is_a_sentence_that_says_all() {
        let condition =
            json!({"type": "string", "column": "environment", "operator": "=", "value": "prod"});
        let actual = json!("staging");
        let draft =
            of_step(&Step::Refused(Refusal::NotMatched { index: 1, condition, actual })).unwrap();
        assert_eq!(
            draft.sentence,
            "The rule scores where environment is \"prod\"; here it is \"staging\"."
        );
        let draft = of_step(&Step::Refused(Refusal::SampledOut { value: 0.5, rate: 0.1 })).unwrap();
        assert!(draft.sentence.contains("10 %") && draft.sentence.contains("0.500000"));
        assert!(draft.facts.is_empty());
    }

    #[test]
    fn a_target_that_is_on_the_page_is_not_said_to_be_missing() {
        assert!(of_step(&Step::NoSuchTarget).is_none());
    }
}
