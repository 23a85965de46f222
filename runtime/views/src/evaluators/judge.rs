//! The form that creates or changes a judge, with its rendered prompt.

use askama::Template;

use crate::layout::forms::RejectedForm;
use crate::rules::page::DefinitionChange;
use crate::{Shell, Text, TrialView};

/// The editor of a judge. Without script it is a form whose buttons preview, save, or add and remove messages.
#[derive(Clone, Debug, Template)]
#[template(path = "judge_editor.html")]
pub struct JudgeEditorPage {
    /// Page frame.
    pub shell: Shell,
    /// Name and URL of the stored evaluator; absent for a new one.
    pub stored: Option<(Text, String)>,
    /// Action of the form.
    pub action: String,
    /// The values of the fields.
    pub fields: JudgeFields,
    /// Variables of the messages, each with whether it is filled without a mapping.
    pub variables: Vec<(Text, bool)>,
    /// Names and models of the connections of the project.
    pub connections: Vec<JudgeConnection>,
    /// Connection and model of the default evaluation model.
    pub default_model: Option<Text>,
    /// Names and titles of the presets, and whether each fills the form; empty for a stored judge.
    pub presets: Vec<(String, Text, bool)>,
    /// The rejected form.
    pub rejected_form: RejectedForm,
    /// The stored judge, if it was changed after this form was opened.
    pub conflict: Option<JudgeConflict>,
    /// The rendered prompt of the sent values.
    pub preview: Option<PromptPreview>,
    /// Recorded values of the target of the prompt, to which variables can be mapped.
    pub choices: Vec<MappingChoice>,
    /// The trial of the sent values.
    pub trial: TrialView,
    /// Whether the values are those of a sent form that was not saved.
    pub is_sent: bool,
}

/// The values of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeFields {
    /// Number of the version that the form is based on; empty for a new judge.
    pub version: String,
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Name that the form is based on.
    pub stored_name: String,
    /// Description that the form is based on.
    pub stored_description: String,
    /// The prompt.
    pub messages: Vec<JudgeMessage>,
    /// Lines of variable, source and path.
    pub mapping: String,
    /// `NUMERIC`, `BOOLEAN`, `CATEGORICAL`, `CHOICES` or `QUESTIONS`.
    pub output: String,
    /// Smallest number.
    pub min: String,
    /// Largest number.
    pub max: String,
    /// Lines of a category, or of a choice and its score.
    pub categories: String,
    /// Whether several categories may apply.
    pub is_multiple: bool,
    /// Questions as a JSON array.
    pub questions: String,
    /// Description of the score for the model.
    pub score_description: String,
    /// Description of the reasoning for the model.
    pub reasoning_description: String,
    /// Whether the model gives reasons before it chooses.
    pub has_reasons: bool,
    /// Name of a connection; empty for the default evaluation model.
    pub connection: String,
    /// Model of the connection.
    pub model: String,
    /// Parameters as a JSON object.
    pub params: String,
    /// Temperature.
    pub temperature: String,
    /// Most tokens of a prompt.
    pub max_input_tokens: String,
    /// Most tokens of a reply.
    pub max_output_tokens: String,
    /// Milliseconds.
    pub timeout_ms: String,
    /// Repetitions after a malformed reply.
    pub reasks: String,
    /// Most US dollars of one evaluation.
    pub max_usd: String,
    /// Lines of the connection and the model of each further vote.
    pub others: String,
    /// Votes of each model.
    pub repeats: String,
    /// How votes become one score.
    pub reducer: String,
    /// Whether inserted values are enclosed in marks.
    pub is_fenced: bool,
    /// The rest of the configuration as a JSON object; empty without further members.
    pub config: String,
}

/// A message of the prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// Text with variables.
    pub content: String,
}

/// A connection that a judge can use.
#[derive(Clone, Debug)]
pub struct JudgeConnection {
    /// Name.
    pub name: String,
    /// Models that were entered for it.
    pub models: Vec<String>,
}

/// The stored judge differs from the one that the form was opened with.
#[derive(Clone, Debug)]
pub struct JudgeConflict {
    /// Number of the stored version.
    pub version: u32,
    /// Members that differ: the stored value, and the value of the form.
    pub members: Vec<DefinitionChange>,
}

/// A recorded value that a variable can be mapped to.
#[derive(Clone, Debug)]
pub struct MappingChoice {
    /// Source and path, as in a line of the mapping.
    pub line: String,
    /// Beginning of the value.
    pub value: Text,
}

/// A rendered prompt.
#[derive(Clone, Debug)]
pub struct PromptPreview {
    /// Id and URL of the target; absent for an item.
    pub target: Option<(Text, String)>,
    /// The reason why the prompt is absent.
    pub problem: Option<Text>,
    /// Messages.
    pub messages: Vec<PromptMessageView>,
    /// Variables without a value.
    pub missing: Vec<Text>,
    /// Whether values are enclosed in marks, which are not shown.
    pub has_marks: bool,
    /// Models of the votes.
    pub models: Vec<Text>,
    /// Estimates: label and value.
    pub facts: Vec<(&'static str, String)>,
}

/// A message of a rendered prompt.
#[derive(Clone, Debug)]
pub struct PromptMessageView {
    /// Role.
    pub role: Text,
    /// In order: the variable of an inserted value, and the text.
    pub parts: Vec<(Option<Text>, Text)>,
}

/// Roles of messages.
const ROLES: [&str; 3] = ["system", "user", "assistant"];
/// Types of the output: value and label.
const OUTPUTS: [(&str, &str); 5] = [
    ("NUMERIC", "a number"),
    ("BOOLEAN", "true or false"),
    ("CATEGORICAL", "a category"),
    ("CHOICES", "a choice with a number"),
    ("QUESTIONS", "several questions, as JSON"),
];
/// Reducers: value and label.
const REDUCERS: [(&str, &str); 5] = [
    ("mode", "the most frequent vote"),
    ("mean", "the mean"),
    ("median", "the median"),
    ("majority", "the vote of more than half"),
    ("all", "the unanimous vote"),
];
/// Fields of the folded part of the form.
const FOLDED: [&str; 11] = [
    "params",
    "temperature",
    "max_input_tokens",
    "max_output_tokens",
    "timeout_ms",
    "reasks",
    "max_usd",
    "others",
    "repeats",
    "config",
    "description",
];

impl JudgeEditorPage {
    fn is_unfolded(&self) -> bool {
        FOLDED.iter().any(|field| self.rejected_form.problem(field).is_some())
    }

    fn roles(&self) -> [&'static str; 3] {
        ROLES
    }

    fn outputs(&self) -> [(&'static str, &'static str); 5] {
        OUTPUTS
    }

    fn reducers(&self) -> [(&'static str, &'static str); 5] {
        REDUCERS
    }

    fn has_connection(&self) -> bool {
        let name = &self.fields.connection;
        name.is_empty() || self.connections.iter().any(|connection| connection.name == *name)
    }
}
