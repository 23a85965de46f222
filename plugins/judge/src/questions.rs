//! The evaluator `questions`: several questions in one request, one score for each.

use perpend_plugin::ConfigProblem;
use perpend_plugin::host::{Level, log_with};
use perpend_plugin::model::{Completion, Request, Slot};
use perpend_plugin::prelude::*;

use crate::answer::{Answer, lines, member};
use crate::config::{Question, QuestionsConfig};
use crate::judge::NEEDS;
use crate::panel::{SLOTS, Seat, malformed, quorum, send};
use crate::prepared::PreparedPrompt;
use crate::prompt::add_instruction;
use crate::shape::{Shape, closed, object, text_schema};
use crate::{check, votes};

/// Several questions to a model, or to a panel of models.
pub struct Questions;

/// The vote of a seat on a question; `None` when the question does not apply.
type QuestionVote = Result<Option<Answer>, String>;

impl Evaluator for Questions {
    const ID: &'static str = "questions";
    const TITLE: &'static str = "Model judge, several questions";
    const DESCRIPTION: &'static str = "A language model, or a panel of models, reads the item once and answers up to 50 \
        questions. Each question has its own score, named after the question.";
    const NEEDS: Parts = NEEDS;
    const SLOTS: &'static [Slot] = SLOTS;
    const SCORES: &'static [ScoreSpec] = &[];
    const DYNAMIC_SCORES: bool = true;
    type Config = QuestionsConfig;

    fn evaluate(item: &Item, config: &QuestionsConfig) -> Result<Vec<Score>, EvalError> {
        let seats = config.panel.seats();
        let all: Vec<&Question> = config.questions.iter().collect();
        let prepared = config.request.prepare(item, None, Some(&instruction(&all)))?;
        let question = request(config, &prepared, &all)?;
        let requests: Vec<_> = seats.iter().map(|seat| seat.request(&question)).collect();
        let replies = send(&requests)?;
        let cast = all.iter().map(|question| {
            let replies = replies.iter().map(|reply| reply.as_ref().map_err(Clone::clone));
            replies.map(|reply| question.read(reply?)).collect()
        });
        let mut cast: Vec<Vec<QuestionVote>> = cast.collect();
        // With one question the first request was already an individual one.
        if all.len() > 1 {
            retry_individually(config, &prepared, &seats, &mut cast)?;
        }
        let mut outcome = Outcome::default();
        for (question, cast) in all.into_iter().zip(cast) {
            outcome.add(question, question_scores(config, question, &seats, cast));
        }
        let scores = outcome.scores()?.into_iter();
        Ok(scores.map(|score| prepared.annotate(score)).collect())
    }

    fn check_config(config: &QuestionsConfig) -> Vec<ConfigProblem> {
        check::questions(config)
    }
}

/// The scores, and the error to return when there are none.
#[derive(Default)]
struct Outcome {
    scores: Vec<Score>,
    failed: Option<EvalError>,
    skipped: Option<EvalError>,
}

impl Outcome {
    /// A question without a score is logged and does not affect the others.
    fn add(&mut self, question: &Question, scores: Result<Vec<Score>, EvalError>) {
        match scores {
            Ok(scores) => self.scores.extend(scores),
            Err(why) => {
                let fields = [
                    ("question", Json::from(question.name.as_str())),
                    ("reason", Json::from(why.text())),
                ];
                let slot = match why {
                    EvalError::NotApplicable(_) => {
                        log_with(Level::Info, "the question has no score", fields);
                        &mut self.skipped
                    }
                    _ => {
                        log_with(Level::Warn, "the question failed", fields);
                        &mut self.failed
                    }
                };
                slot.get_or_insert(why);
            }
        }
    }

    fn scores(self) -> Result<Vec<Score>, EvalError> {
        match self.failed.or(self.skipped) {
            Some(why) if self.scores.is_empty() => Err(why),
            _ => Ok(self.scores),
        }
    }
}

impl Question {
    fn shape(&self) -> Shape<'_> {
        Shape::of(self.data_type, &self.score)
    }

    fn schema(&self) -> Json {
        let members = [
            ("reasoning", text_schema("")),
            ("score", self.shape().schema(&self.score.description)),
        ];
        let answer = object(closed(members));
        match self.when {
            None => answer,
            Some(_) => object([(
                "anyOf",
                Json::Array(vec![answer, object([("type", Json::from("null"))])]),
            )]),
        }
    }

    /// The question in the prompt.
    fn line(&self) -> String {
        let (name, description) = (&self.name, &self.description);
        match &self.when {
            None => format!("- `{name}`: {description}"),
            Some(when) => format!("- `{name}`: {description} (only when: {when}; otherwise null)"),
        }
    }

    fn read(&self, reply: &Completion) -> QuestionVote {
        let text =
            reply.structured.as_deref().ok_or_else(|| malformed("the reply is not structured"))?;
        let object = Json::parse(text).map_err(|why| malformed(&why.to_string()))?;
        let answer = match member(&object, &self.name) {
            None | Some(Json::Null) if self.when.is_some() => return Ok(None),
            None => return Err(malformed(&format!("{} is missing", self.name))),
            Some(answer) => answer,
        };
        let score = member(answer, "score").ok_or_else(|| malformed("score is missing"))?;
        let value = self.shape().read(score).map_err(|why| malformed(&why))?;
        let answer = Answer::of(value, lines(member(answer, "reasoning")));
        Ok(Some(answer.with("model", reply.model.as_str())))
    }
}

/// The instruction to the model about the questions.
fn instruction(questions: &[&Question]) -> String {
    let lines: Vec<String> = questions.iter().map(|question| question.line()).collect();
    format!(
        "Answer each of these questions under its name, with your reasoning before the score:\n{}",
        lines.join("\n")
    )
}

fn request(
    config: &QuestionsConfig,
    prepared: &PreparedPrompt,
    questions: &[&Question],
) -> Result<Request, EvalError> {
    let mut messages = prepared.messages.clone();
    add_instruction(&mut messages, &instruction(questions));
    let members = questions.iter().map(|question| (question.name.as_str(), question.schema()));
    let schema = object(closed(members));
    let request = config.request.model_request(messages, Some(&schema))?;
    Ok(prepared.final_request(request))
}

/// Repeats the requests for missing answers with one question each, so that questions do not affect each other.
fn retry_individually(
    config: &QuestionsConfig,
    prepared: &PreparedPrompt,
    seats: &[Seat],
    cast: &mut [Vec<QuestionVote>],
) -> Result<(), EvalError> {
    let mut places = Vec::new();
    let mut requests = Vec::new();
    for (at, question) in config.questions.iter().enumerate() {
        for (n, seat) in seats.iter().enumerate() {
            if cast[at][n].is_err() {
                places.push((at, n));
                requests.push(seat.request(&request(config, prepared, &[question])?));
            }
        }
    }
    if requests.is_empty() {
        return Ok(());
    }
    for ((at, n), reply) in places.into_iter().zip(send(&requests)?) {
        cast[at][n] = reply.and_then(|completion| config.questions[at].read(&completion));
    }
    Ok(())
}

/// The scores of one question.
fn question_scores(
    config: &QuestionsConfig,
    question: &Question,
    seats: &[Seat],
    cast: Vec<QuestionVote>,
) -> Result<Vec<Score>, EvalError> {
    let cast = quorum(cast)?;
    let n_not_applicable = cast.iter().filter(|vote| matches!(vote, Ok(None))).count();
    let n_applicable = cast.iter().filter(|vote| matches!(vote, Ok(Some(_)))).count();
    if n_not_applicable >= n_applicable {
        return Err(EvalError::not_applicable("the question does not apply"));
    }
    let seated = seats.iter().copied().zip(cast);
    let cast: Vec<_> = seated.filter_map(|(seat, vote)| Some((seat, vote.transpose()?))).collect();
    votes::scores(&question.name, &cast, &config.panel)
}
