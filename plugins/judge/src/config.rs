//! The configuration of a judge. What a JSON Schema can say about it is said here, the rest in `check.rs`.

use std::collections::BTreeMap;
use std::fmt;

use perpend_plugin::model::Role;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};

/// One question to a model, and what becomes of the answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct JudgeConfig {
    /// How the item is presented and how the answer is sampled.
    #[serde(flatten)]
    pub asking: Asking,
    /// What the model has to answer. Required unless `choice_scores` is given.
    #[serde(default)]
    pub output: Option<Output>,
    /// Choices and the number that each one scores.
    #[serde(default)]
    pub choice_scores: Option<ChoiceScores>,
    /// With `choice_scores`: the model gives its reasons before it chooses.
    #[serde(default = "yes")]
    pub chain_of_thought: bool,
    /// A regular expression that finds the verdict in a free-text reply: its first group, or the whole match. All matches
    /// outside of thinking and quotations must give the same verdict. Needs `choice_scores`, or `output` with categories.
    #[serde(default)]
    pub pattern: Option<String>,
    /// How many times each model is asked, and how the votes become one score.
    #[serde(default)]
    pub panel: Panel,
    /// Two variables that change places in a second request; the score is the mean of both orders.
    /// Needs `choice_scores`.
    #[serde(default)]
    pub swap: Option<[String; 2]>,
    /// Ask for the log-probabilities of this many alternatives per token, and store the distribution over the choices.
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    pub logprobs: Option<u8>,
    /// With `choice_scores`: score the expected value over the distribution instead of the choice.
    #[serde(default)]
    pub weighted: bool,
}

/// Several questions in one request, each with a score of its own.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct QuestionsConfig {
    /// How the item is presented and how the answer is sampled.
    #[serde(flatten)]
    pub asking: Asking,
    /// The questions, in the order in which the model answers them.
    #[schemars(length(min = 1, max = 50))]
    pub questions: Vec<Question>,
    /// How many times each model is asked, and how the votes become one score.
    #[serde(default)]
    pub panel: Panel,
}

/// What both kinds of judges share.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Asking {
    /// The text for the model, or a list of messages. `{{name}}` stands for a variable: `input`, `output`,
    /// `expected_output`, `metadata`, or any name that the mapping provides.
    pub prompt: Prompt,
    /// Where the prompt was taken from. Where `prompt` is absent, the server fills it in when the evaluator is saved.
    #[serde(default)]
    pub prompt_ref: Option<PromptRef>,
    /// Enclose each inserted value in lines with an unpredictable mark, and tell the model that the text between them is
    /// data and not instructions.
    #[serde(default = "yes")]
    pub fence: bool,
    /// Variables that are part of the instructions, such as criteria: they are inserted without a fence.
    #[serde(default)]
    pub trusted: Vec<String>,
    /// Variables that may be shortened, by name. Everything else is inserted whole.
    #[serde(default)]
    pub truncate: BTreeMap<String, Truncate>,
    /// The longest prompt, in tokens of 4 bytes. `large` says what becomes of a longer one.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_input_tokens: Option<u32>,
    /// What happens when the prompt is longer than that.
    #[serde(default)]
    pub large: Large,
    /// How far a model explores. Needs `large: explore`.
    #[serde(default)]
    pub explore: Option<Explore>,
    /// The longest reply, in tokens.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u32>,
    /// Sampling temperature; the provider's default when absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f32>,
    /// Nucleus sampling; the provider's default when absent.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f32>,
    /// Send a seed that is the same whenever the same item is judged again.
    #[serde(default)]
    pub seed: bool,
}

pub(crate) fn yes() -> bool {
    true
}

/// What happens when a prompt is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Large {
    /// An error, `context_too_long`.
    #[default]
    Fail,
    /// The longest variables are shortened, and a digest of the item's trace is added: its outline, then inputs and outputs,
    /// the failed observations first.
    Digest,
    /// The longest variables are shortened, and the model gets the outline of the item's trace and tools to look into it.
    Explore,
}

impl Large {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Digest => "digest",
            Self::Explore => "explore",
        }
    }
}

/// How far a model explores.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Explore {
    /// How many times tools can be used. Each may take a request, and the host answers 64 of one evaluation.
    #[schemars(range(min = 1, max = 50))]
    pub max_calls: u32,
    /// Tokens of requests and replies together after which no tool can be used any more.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
}

impl Default for Explore {
    fn default() -> Self {
        Self { max_calls: 32, max_tokens: None }
    }
}

/// A prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Prompt {
    /// One message of the user.
    Text(String),
    /// A conversation.
    Messages(#[schemars(length(min = 1))] Vec<Message>),
}

/// A prompt of prompt management.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptRef {
    /// Its name.
    pub name: String,
    /// Its version; the one in production when absent.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub version: Option<u32>,
}

/// A message of the prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who says it.
    pub role: MessageRole,
    /// The text, with placeholders.
    pub content: String,
}

/// Who says a message.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// Instructions for the whole conversation.
    System,
    /// The person who asks.
    User,
    /// The model.
    Assistant,
}

impl From<MessageRole> for Role {
    fn from(role: MessageRole) -> Self {
        match role {
            MessageRole::System => Self::System,
            MessageRole::User => Self::User,
            MessageRole::Assistant => Self::Assistant,
        }
    }
}

/// How a variable is shortened.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Truncate {
    /// What is kept.
    #[serde(default)]
    pub keep: Keep,
    /// How much is kept, in tokens of 4 bytes.
    #[schemars(range(min = 1))]
    pub tokens: u32,
}

/// What is kept of a long text.
#[derive(Clone, Copy, Debug, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The beginning and the end; the middle is left out.
    #[default]
    Middle,
    /// The beginning.
    Head,
    /// The end.
    Tail,
}

/// What the model has to answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Output {
    /// A score of a data type.
    Typed(TypedOutput),
    /// The legacy form: a number without bounds.
    Legacy(LegacyOutput),
}

/// A score of a data type.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TypedOutput {
    /// The data type of the score.
    pub data_type: DataType,
    /// The explanation that the model writes before it scores.
    #[serde(default)]
    pub reasoning: Described,
    /// The score.
    pub score: ScoreShape,
}

/// The descriptions of a number without bounds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LegacyOutput {
    /// What the score means.
    pub score: String,
    /// What the explanation should say.
    pub reasoning: String,
}

/// Something that the model writes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// What the model is told about it.
    #[serde(default)]
    pub description: String,
}

/// The data type of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum DataType {
    /// A number.
    Numeric,
    /// True or false.
    Boolean,
    /// One category, or several.
    Categorical,
}

/// The values of a score.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScoreShape {
    /// What the model is told about it.
    #[serde(default)]
    pub description: String,
    /// NUMERIC: the smallest value.
    #[serde(default)]
    pub min_value: Option<f64>,
    /// NUMERIC: the largest value.
    #[serde(default)]
    pub max_value: Option<f64>,
    /// CATEGORICAL: the categories, at least two.
    #[serde(default)]
    pub categories: Option<Vec<String>>,
    /// CATEGORICAL: the model may name several categories.
    #[serde(default)]
    pub should_allow_multiple_matches: bool,
}

/// One of several questions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Question {
    /// The name of its score; 1 to 64 of `a-z`, `A-Z`, `0-9`, `_` and `-`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,64}$"))]
    pub name: String,
    /// The data type of its score.
    pub data_type: DataType,
    /// The values of its score.
    #[serde(default)]
    pub score: ScoreShape,
    /// The question itself.
    #[schemars(length(min = 1))]
    pub description: String,
    /// When the question applies, in words. Where it does not, the model answers null and there is no score.
    #[serde(default)]
    pub when: Option<String>,
}

/// Several votes.
#[derive(Clone, Copy, Debug, Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Panel {
    /// How many models vote: the slots `judge`, `judge-2` and so on.
    #[schemars(range(min = 1, max = 5))]
    pub models: u8,
    /// How many times each of them is asked.
    #[schemars(range(min = 1, max = 9))]
    pub repeats: u8,
    /// How the votes become one score.
    pub reducer: Reducer,
}

impl Default for Panel {
    fn default() -> Self {
        Self { models: 1, repeats: 1, reducer: Reducer::Mode }
    }
}

/// How votes become one score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reducer {
    /// The most frequent vote; of equally frequent ones the first.
    #[default]
    Mode,
    /// The mean of the numbers.
    Mean,
    /// The median of the numbers.
    Median,
    /// What more than half of the votes say; otherwise there is no score.
    Majority,
    /// What all votes say. For BOOLEAN: true when all say true. Otherwise there is no score.
    All,
}

impl Reducer {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Majority => "majority",
            Self::All => "all",
        }
    }
}

/// Choices with their numbers, in the order in which they are written.
#[derive(Debug)]
pub struct ChoiceScores(pub Vec<(String, f64)>);

impl<'de> Deserialize<'de> for ChoiceScores {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = ChoiceScores;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of choices and numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ChoiceScores, A::Error> {
                let mut choices = Vec::new();
                while let Some(choice) = map.next_entry()? {
                    choices.push(choice);
                }
                Ok(ChoiceScores(choices))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl JsonSchema for ChoiceScores {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ChoiceScores".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "minProperties": 1,
            "additionalProperties": { "type": "number" },
        })
    }
}
