//! The configuration of a judge. The constraints that a JSON Schema can express are here, the others in `check.rs`.

use std::collections::BTreeMap;
use std::fmt;

use perpend_plugin::model::Role;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};

/// One question to a model, and how the answer becomes a score.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct JudgeConfig {
    /// The prompt and the sampling of the answer.
    #[serde(flatten)]
    pub request: RequestConfig,
    /// The score that the model returns. Required unless `choice_scores` is given.
    #[serde(default)]
    pub output: Option<Output>,
    /// The choices, each with its score.
    #[serde(default)]
    pub choice_scores: Option<ChoiceScores>,
    /// With `choice_scores`: the model writes its reasoning before it chooses.
    #[serde(default = "yes")]
    pub chain_of_thought: bool,
    /// A regular expression that extracts the verdict from a free-text reply: its first group, or the whole match. Matches
    /// inside reasoning blocks and quotations are ignored; all others must agree. Requires `choice_scores`, or `output` with
    /// categories.
    #[serde(default)]
    pub pattern: Option<String>,
    /// The number of models, the number of votes of each, and the reduction to one score.
    #[serde(default)]
    pub panel: Panel,
    /// Two variables that are exchanged in a second request; the score is the mean of both orders. Requires
    /// `choice_scores`.
    #[serde(default)]
    pub swap: Option<[String; 2]>,
    /// Request the log-probabilities of this many alternatives per token, and store the distribution over the choices.
    #[serde(default)]
    #[schemars(range(min = 1, max = 20))]
    pub logprobs: Option<u8>,
    /// With `choice_scores`: the score is the expected value over the distribution instead of the score of the choice.
    #[serde(default)]
    pub weighted: bool,
}

/// Several questions in one request, one score for each.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct QuestionsConfig {
    /// The prompt and the sampling of the answer.
    #[serde(flatten)]
    pub request: RequestConfig,
    /// The questions, in the order in which the model answers.
    #[schemars(length(min = 1, max = 50))]
    pub questions: Vec<Question>,
    /// The number of models, the number of votes of each, and the reduction to one score.
    #[serde(default)]
    pub panel: Panel,
}

/// The part of the configuration that `judge` and `questions` have in common.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RequestConfig {
    /// The text for the model, or a list of messages. `{{name}}` inserts a variable: `input`, `output`, `expected_output`,
    /// `metadata`, or any name that the mapping provides.
    pub prompt: Prompt,
    /// The managed prompt that `prompt` is a copy of. When `prompt` is absent, the server fills it in when the evaluator is
    /// saved.
    #[serde(default)]
    pub prompt_ref: Option<PromptRef>,
    /// Enclose each inserted value in lines with an unpredictable mark, and instruct the model to treat the text between
    /// them as data, not as instructions.
    #[serde(default = "yes")]
    pub fence: bool,
    /// Variables that are part of the instructions, such as criteria; they are inserted without a fence.
    #[serde(default)]
    pub trusted: Vec<String>,
    /// Variables that may be truncated, by name. Others are inserted whole.
    #[serde(default)]
    pub truncate: BTreeMap<String, Truncation>,
    /// The maximum length of the prompt, in tokens of 4 bytes. `large` determines how a longer prompt is handled.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_input_tokens: Option<u32>,
    /// The handling of a prompt that is longer than `max_input_tokens`.
    #[serde(default)]
    pub large: LargePrompt,
    /// Limits of the exploration. Requires `large: explore`.
    #[serde(default)]
    pub explore: Option<ExploreLimits>,
    /// The maximum length of the reply, in tokens.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub max_output_tokens: Option<u32>,
    /// Sampling temperature. Defaults to that of the provider.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f32>,
    /// Nucleus sampling: the probability mass of the tokens to sample from. Defaults to that of the provider.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_p: Option<f32>,
    /// Send a seed, which is the same each time the same item is judged.
    #[serde(default)]
    pub seed: bool,
}

pub(crate) fn yes() -> bool {
    true
}

/// The handling of a prompt that is too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LargePrompt {
    /// Fail with `context_too_long`.
    #[default]
    Fail,
    /// Truncate the longest variables and add a digest of the item's trace: its outline, then inputs and outputs, those of
    /// failed observations first.
    Digest,
    /// Truncate the longest variables, and give the model the outline of the item's trace and tools to read it.
    Explore,
}

impl LargePrompt {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Digest => "digest",
            Self::Explore => "explore",
        }
    }
}

/// The limits of an exploration.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExploreLimits {
    /// The maximum number of tool calls. Each can take one request; the host answers at most 64 requests of one evaluation.
    #[schemars(range(min = 1, max = 50))]
    pub max_calls: u32,
    /// The number of tokens, of requests and replies together, after which no further tool call is possible.
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
}

impl Default for ExploreLimits {
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

/// A managed prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptRef {
    /// The name of the prompt.
    pub name: String,
    /// The version of the prompt. Defaults to the one in production.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub version: Option<u32>,
}

/// A message of the prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The role of the author.
    pub role: MessageRole,
    /// The text; `{{name}}` inserts a variable.
    pub content: String,
}

/// The role of the author of a message.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// Instructions for the whole conversation.
    System,
    /// The user.
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

/// The truncation of a variable.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Truncation {
    /// The part of the text that is kept.
    #[serde(default)]
    pub keep: KeepPolicy,
    /// The length that is kept, in tokens of 4 bytes.
    #[schemars(range(min = 1))]
    pub tokens: u32,
}

/// The part of a long text that is kept.
#[derive(Clone, Copy, Debug, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeepPolicy {
    /// The beginning and the end, without the middle.
    #[default]
    Middle,
    /// The beginning.
    Head,
    /// The end.
    Tail,
}

/// The score that the model returns.
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
    pub reasoning: ReasoningSpec,
    /// The score.
    pub score: ScoreShape,
}

/// The descriptions of a number without bounds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LegacyOutput {
    /// The description of the score for the model.
    pub score: String,
    /// The description of the explanation for the model.
    pub reasoning: String,
}

/// The explanation of a score.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasoningSpec {
    /// The description for the model.
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
    /// The description for the model.
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
    /// CATEGORICAL: the model may choose several categories.
    #[serde(default)]
    pub should_allow_multiple_matches: bool,
}

/// One of several questions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Question {
    /// The name of the score: 1 to 64 characters of `a-z`, `A-Z`, `0-9`, `_` and `-`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,64}$"))]
    pub name: String,
    /// The data type of the score.
    pub data_type: DataType,
    /// The values of the score.
    #[serde(default)]
    pub score: ScoreShape,
    /// The question.
    #[schemars(length(min = 1))]
    pub description: String,
    /// The condition under which the question applies, in words. When it does not, the model answers null and there is no
    /// score.
    #[serde(default)]
    pub when: Option<String>,
}

/// A panel of votes.
#[derive(Clone, Copy, Debug, Deserialize, serde::Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Panel {
    /// The number of models that vote: the slots `judge`, `judge-2` and so on.
    #[schemars(range(min = 1, max = 5))]
    pub models: u8,
    /// The number of votes of each model.
    #[schemars(range(min = 1, max = 9))]
    pub repeats: u8,
    /// The reduction of the votes to one score.
    pub reducer: Reducer,
}

impl Default for Panel {
    fn default() -> Self {
        Self { models: 1, repeats: 1, reducer: Reducer::Mode }
    }
}

/// A reduction of votes to one score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reducer {
    /// The most frequent vote; among equally frequent votes the first.
    #[default]
    Mode,
    /// The mean of the numbers.
    Mean,
    /// The median of the numbers.
    Median,
    /// The value of more than half of the votes. Without one there is no score.
    Majority,
    /// The value of all votes; without one there is no score. BOOLEAN: true when all votes are true, else false.
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

/// Choices with their scores, in the order of the configuration.
#[derive(Debug)]
pub struct ChoiceScores(pub Vec<(String, f64)>);

impl<'de> Deserialize<'de> for ChoiceScores {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = ChoiceScores;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a number for each choice")
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
