//! A plug-in that calls a model: a starting point to copy and rename.

use perpend_plugin::host::{Level, log_with};
use perpend_plugin::model::{Request, Role, Slot, SlotKind, complete_all};
use perpend_plugin::prelude::*;
use perpend_plugin::{ConfigProblem, Domain};

/// The share of votes of a model that the output answers the input.
pub struct Answers;

/// The configuration. The server checks it against its JSON Schema and shows the descriptions in the form.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswersConfig {
    /// The prompt for the model; `{input}` and `{output}` are replaced by the parts of the item.
    #[serde(default = "default_prompt")]
    pub prompt: String,
    /// The number of requests to the model.
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

/// The answer of the model.
#[derive(Deserialize, JsonSchema)]
struct Vote {
    /// The reason, in one sentence.
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
    // The slot for a model. The configuration of an evaluator assigns a model to it.
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
        // The host runs the requests concurrently. Each has its own seed, so that the cache does not answer it.
        let questions: Vec<Request> = (0..config.votes)
            .map(|vote| Request {
                seed: Some(u64::from(vote)),
                ..question.clone()
            })
            .collect();
        let mut votes = Vec::new();
        for answer in complete_all(&questions) {
            // The host decides whether an error of the model is retried.
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

    // Checks that a JSON Schema cannot express. The server runs them before it saves an evaluator.
    fn check_config(config: &AnswersConfig) -> Vec<ConfigProblem> {
        if config.prompt.contains("{output}") {
            return Vec::new();
        }
        vec![ConfigProblem::at(
            "/prompt",
            "`prompt` must contain {output}",
        )]
    }
}

perpend_plugin::plugin! {
    name: "example/judge",
    description: "Evaluators that call a model",
    evaluators: [Answers],
    exports: [config_check],
}
