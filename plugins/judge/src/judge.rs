//! The evaluator `judge`: one question, one score.

use perpend_plugin::ConfigProblem;
use perpend_plugin::model::{Completion, Distribution, Place, Request, Slot};
use perpend_plugin::prelude::*;

use crate::answer::{Answer, Value, lines, member};
use crate::config::{JudgeConfig, Output};
use crate::distribution::expectation;
use crate::panel::{Reply, SLOTS, Seat, malformed, quorum, send};
use crate::prepared::PreparedPrompt;
use crate::prompt::add_instruction;
use crate::shape::{Shape, closed, object, text_schema};
use crate::{check, free_text, votes};

/// The name of the score. The host replaces it with the name of the evaluator.
const SCORE: &str = "judge";
/// The maximum number of alternatives of the providers: the default when a distribution is needed.
const MAX_ALTERNATIVES: u8 = 20;

/// The parts of an item that a prompt can contain.
pub(crate) const NEEDS: Parts =
    Parts { input: true, output: true, expected_output: true, metadata: true, ..Parts::NONE };

/// One question to a model, or to a panel of models.
pub struct Judge;

impl Evaluator for Judge {
    const ID: &'static str = "judge";
    const TITLE: &'static str = "Model judge";
    const DESCRIPTION: &'static str = "A language model, or a panel of models, reads the item in a prompt and returns one score: \
        a number, true or false, categories, or a choice with a number. Its reasoning is the comment.";
    const NEEDS: Parts = NEEDS;
    const SLOTS: &'static [Slot] = SLOTS;
    // The data type depends on the configuration.
    const SCORES: &'static [ScoreSpec] = &[];
    const DYNAMIC_SCORES: bool = true;
    type Config = JudgeConfig;

    fn evaluate(item: &Item, config: &JudgeConfig) -> Result<Vec<Score>, EvalError> {
        let task = Task::of(config)?;
        let seats = config.panel.seats();
        let prepared = task.prepare(item, None)?;
        let mut requests = task.requests(&prepared, &seats)?;
        if let Some(swap) = &config.swap {
            let swapped = task.prepare(item, Some(swap))?;
            requests.extend(task.requests(&swapped, &seats)?);
        }
        let replies = task.replies(&requests)?.into_iter();
        let mut answers = replies.map(|reply| reply.and_then(|completion| task.read(&completion)));
        let mut cast: Vec<_> = answers.by_ref().take(seats.len()).collect();
        if let Shape::Choice(scores) = task.shape
            && config.swap.is_some()
        {
            cast = cast
                .into_iter()
                .zip(answers)
                .map(|(plain, swapped)| Ok(mean_of_orders(plain?, &swapped?, scores)))
                .collect();
        }
        let cast: Vec<_> = seats.into_iter().zip(quorum(cast)?).collect();
        let scores = votes::scores(SCORE, &cast, &config.panel)?.into_iter();
        Ok(scores.map(|score| prepared.annotate(score)).collect())
    }

    fn check_config(config: &JudgeConfig) -> Vec<ConfigProblem> {
        check::judge(config)
    }
}

impl JudgeConfig {
    /// The values that an answer may take; `None` when there is neither `output` nor `choice_scores`.
    pub(crate) fn shape(&self) -> Option<Shape<'_>> {
        if let Some(scores) = &self.choice_scores {
            return Some(Shape::Choice(&scores.0));
        }
        Some(match self.output.as_ref()? {
            Output::Typed(typed) => Shape::of(typed.data_type, &typed.score),
            Output::Legacy(_) => Shape::Number { min: None, max: None },
        })
    }

    /// The schema of a reply, reasoning first. `None` for verdicts in free text.
    fn schema(&self, shape: &Shape<'_>) -> Option<Json> {
        if self.pattern.is_some() {
            return None;
        }
        let (reasoning, score) = match &self.output {
            _ if self.choice_scores.is_some() => {
                let reasons = ("reasons", text_schema("Your reasons, step by step."));
                let choice = (
                    "choice",
                    shape.schema("Your choice, exactly as it is written in the list of choices."),
                );
                let members = self.chain_of_thought.then_some(reasons).into_iter().chain([choice]);
                let title = [("title", Json::from("select_choice"))];
                return Some(object(title.into_iter().chain(closed(members))));
            }
            Some(Output::Typed(typed)) => (&typed.reasoning.description, &typed.score.description),
            Some(Output::Legacy(legacy)) => (&legacy.reasoning, &legacy.score),
            None => return None,
        };
        let members = [("reasoning", text_schema(reasoning)), ("score", shape.schema(score))];
        Some(object(closed(members)))
    }

    /// The instruction to the model about choices.
    fn instruction(&self) -> Option<String> {
        let scores = self.choice_scores.as_ref().filter(|_| self.pattern.is_none())?;
        let choices: Vec<String> =
            scores.0.iter().map(|(choice, _)| Json::from(choice.as_str()).to_string()).collect();
        let choices = choices.join(", ");
        Some(match self.chain_of_thought {
            true => format!(
                "Think about the question step by step and write your reasons in `reasons` before you decide.\n\
                 Then set `choice` to exactly one of: {choices}."
            ),
            false => format!(
                "Decide without writing down your reasons.\nSet `choice` to exactly one of: {choices}."
            ),
        })
    }

    fn alternatives(&self) -> Option<u8> {
        self.logprobs.or(self.weighted.then_some(MAX_ALTERNATIVES))
    }
}

/// A configuration with the values derived from it.
struct Task<'c> {
    config: &'c JudgeConfig,
    shape: Shape<'c>,
    schema: Option<Json>,
    instruction: Option<String>,
    pattern: Option<regex::Regex>,
}

impl<'c> Task<'c> {
    fn of(config: &'c JudgeConfig) -> Result<Self, EvalError> {
        let shape = config.shape();
        let shape = shape
            .ok_or_else(|| EvalError::invalid_config("`output` or `choice_scores` is required"))?;
        let pattern = config.pattern.as_deref().map(free_text::compile).transpose();
        Ok(Self {
            config,
            schema: config.schema(&shape),
            instruction: config.instruction(),
            shape,
            pattern: pattern.map_err(|why| EvalError::invalid_config(format!("pattern: {why}")))?,
        })
    }

    /// The prompt without the instruction about choices.
    fn prepare(
        &self,
        item: &Item,
        swap: Option<&[String; 2]>,
    ) -> Result<PreparedPrompt, EvalError> {
        let request = &self.config.request;
        request.prepare(item, swap, self.instruction.as_deref())
    }

    fn requests(
        &self,
        prepared: &PreparedPrompt,
        seats: &[Seat],
    ) -> Result<Vec<Request>, EvalError> {
        let mut messages = prepared.messages.clone();
        if let Some(instruction) = &self.instruction {
            add_instruction(&mut messages, instruction);
        }
        let question = self.config.request.model_request(messages, self.schema.as_ref())?;
        let mut question = prepared.final_request(question);
        question.top_logprobs = self.config.alternatives();
        Ok(seats.iter().map(|seat| seat.request(&question)).collect())
    }

    fn replies(&self, requests: &[Request]) -> Result<Vec<Reply>, EvalError> {
        match &self.pattern {
            Some(pattern) => free_text::send_with_retries(requests, pattern, &self.shape),
            None => send(requests),
        }
    }

    fn read(&self, reply: &Completion) -> Result<Answer, String> {
        let (answer, distribution) = match &self.pattern {
            Some(pattern) => free_text::read(pattern, &self.shape, reply)?,
            None => (self.structured(reply)?, self.distribution(reply)),
        };
        let mut answer = answer.with("model", reply.model.as_str());
        if let Some(distribution) = &distribution {
            answer = answer.with_distribution(distribution);
        }
        let Shape::Choice(scores) = self.shape else {
            return Ok(answer);
        };
        if !self.config.weighted {
            return Ok(answer);
        }
        let expected = distribution.and_then(|distribution| expectation(&distribution, scores));
        answer.value = expected.map_or(answer.value, Value::Number);
        Ok(answer.with("weighted", expected.is_some()))
    }

    fn structured(&self, reply: &Completion) -> Result<Answer, String> {
        let text =
            reply.structured.as_deref().ok_or_else(|| malformed("the reply is not structured"))?;
        let object = Json::parse(text).map_err(|why| malformed(&why.to_string()))?;
        let (score, reasoning) = self.members();
        let value =
            member(&object, score).ok_or_else(|| malformed(&format!("{score} is missing")))?;
        let answer = Answer::of(
            self.shape.read(value).map_err(|why| malformed(&why))?,
            lines(member(&object, reasoning)),
        );
        Ok(match (&self.shape, value) {
            (Shape::Choice(_), Json::Text(choice)) => answer.with("choice", choice.trim()),
            _ => answer,
        })
    }

    fn distribution(&self, reply: &Completion) -> Option<Distribution> {
        self.config.alternatives()?;
        reply.probabilities(&self.shape.verdicts()?, Place::Member(self.members().0))
    }

    /// The members of a reply that hold the score and its explanation.
    const fn members(&self) -> (&'static str, &'static str) {
        match self.shape {
            Shape::Choice(_) => ("choice", "reasons"),
            _ => ("score", "reasoning"),
        }
    }
}

/// The mean of both orders. The score of the swapped order is mirrored, because its sides are exchanged.
fn mean_of_orders(plain: Answer, swapped: &Answer, scores: &[(String, f64)]) -> Answer {
    let numbers = scores.iter().map(|(_, score)| *score);
    let ends =
        numbers.clone().fold(f64::INFINITY, f64::min) + numbers.fold(f64::NEG_INFINITY, f64::max);
    let value = match (&plain.value, &swapped.value) {
        (Value::Number(one), Value::Number(other)) => {
            Value::Number(f64::midpoint(*one, ends - other))
        }
        (value, _) => value.clone(),
    };
    let reasons = [("as given", &plain.reasoning), ("swapped", &swapped.reasoning)];
    let reasons = reasons
        .into_iter()
        .filter_map(|(order, reason)| Some(format!("{order}: {}", reason.as_ref()?)));
    let reasons: Vec<String> = reasons.collect();
    let details = swapped.details.iter().map(|(key, value)| (key.as_str(), value.clone()));
    Answer {
        value,
        reasoning: (!reasons.is_empty()).then(|| reasons.join("\n")),
        details: plain.details,
    }
    .with("swapped", object(details))
}
