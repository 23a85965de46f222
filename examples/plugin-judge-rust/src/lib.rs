//! A plug-in that asks a model. Copy the folder, rename the crate and the plug-in, change the rest.

use perpend_plugin::host::{Level, log_with};
use perpend_plugin::model::{Request, Role, Slot, SlotKind, complete_all};
use perpend_plugin::prelude::*;
use perpend_plugin::{ConfigProblem, Domain};

/// Asks a model whether the output answers the input, as often as configured, and takes the mean.
pub struct Answers;

/// Its JSON Schema is what the server checks, and what a person who sets the evaluator up sees.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswersConfig {
    /// What the judge is told; `{input}` and `{output}` stand for the parts of the item.
    #[serde(default = "default_prompt")]
    pub prompt: String,
    /// How often the model is asked.
    #[serde(default = "default_votes")]
    #[schemars(range(min = 1, max = 9))]
    pub votes: u8,
}

fn default_prompt() -> String {
    "Question:\n{input}\n\nAnswer:\n{output}".to_owned()
}

fn default_votes() -> u8 {
    1
}

/// What the model is asked to fill in.
#[derive(Deserialize, JsonSchema)]
struct Vote {
    /// One sentence that says why.
    reason: String,
    /// Whether the question is answered.
    answered: bool,
}

impl Evaluator for Answers {
    const ID: &'static str = "answers";
    const TITLE: &'static str = "Answers the question";
    const DESCRIPTION: &'static str = "A model judges whether the output answers the input.";
    const NEEDS: Parts = Parts {
        input: true,
        output: true,
        ..Parts::NONE
    };
    // A place for a model: whoever makes an evaluator of this says which one it is.
    const SLOTS: &'static [Slot] = &[Slot::required(
        "judge",
        SlotKind::Chat,
        "The model that judges.",
    )];
    const SCORES: &'static [ScoreSpec] = &[ScoreSpec {
        name: "answered",
        description: "share of the votes that find the question answered",
        domain: Domain::Numeric {
            min: Some(0.0),
            max: Some(1.0),
            higher_is_better: true,
        },
    }];
    type Config = AnswersConfig;

    fn evaluate(item: &Item, config: &AnswersConfig) -> Result<Vec<Score>, EvalError> {
        let input = item.input()?.as_text();
        let prompt = config
            .prompt
            .replace("{input}", input)
            .replace("{output}", item.output_text()?);
        let question = Request::system("You judge answers. Be strict.")
            .and(Role::User, prompt)
            .slot("judge")
            .temperature(if config.votes == 1 { 0.0 } else { 0.7 })
            .answering::<Vote>();
        // All at once: the host runs them side by side. Each is another one, or the cache would answer.
        let questions: Vec<Request> = (0..config.votes)
            .map(|vote| Request {
                seed: Some(u64::from(vote)),
                ..question.clone()
            })
            .collect();
        let mut votes = Vec::new();
        for answer in complete_all(&questions) {
            // An error of the model is handed on: the host decides whether the evaluation is tried again.
            votes.push(answer?.read::<Vote>()?);
        }
        let yes = votes.iter().filter(|vote| vote.answered).count();
        log_with(
            Level::Debug,
            "votes",
            [("yes", yes.into()), ("all", votes.len().into())],
        );
        let reasons: Vec<&str> = votes.iter().map(|vote| vote.reason.as_str()).collect();
        let score = Score::share("answered", yes as f64 / votes.len() as f64);
        Ok(vec![score.comment(reasons.join("\n"))])
    }

    // What a schema cannot say. The server asks before it saves an evaluator.
    fn check_config(config: &AnswersConfig) -> Vec<ConfigProblem> {
        if config.prompt.contains("{output}") {
            return Vec::new();
        }
        vec![ConfigProblem::at(
            "/prompt",
            "the prompt has no {output}: the judge would not see what it judges",
        )]
    }
}

perpend_plugin::plugin! {
    name: "example/judge",
    description: "Judges by models",
    evaluators: [Answers],
    exports: [config_check],
}
