//! The form that creates or changes an evaluator of a plug-in or of source code.

use askama::Template;

use crate::layout::assets;
use crate::{
    DefinitionChange, PluginEvaluatorView, PluginGrant, RejectedForm, Shell, Text, TrialView,
};

/// The form of an evaluator. Without script its buttons send it.
#[derive(Clone, Debug, Template)]
#[template(path = "evaluator_form.html")]
pub struct EvaluatorFormPage {
    /// Page frame.
    pub shell: Shell,
    /// Name and URL of the changed evaluator; absent for a new one.
    pub changed: Option<(Text, String)>,
    /// Action of the form.
    pub action: String,
    /// Name, description and version.
    pub head: EvaluatorHeadFields,
    /// The definition.
    pub definition: EvaluatorDefinitionFields,
    /// The stored evaluator, if it was changed after this form was opened.
    pub conflict: Option<EvaluatorConflict>,
    /// The fields and results of a trial.
    pub trial: TrialView,
    /// Whether the values are those of a sent form that was not saved.
    pub is_sent: bool,
    /// URL of the script of the code editor, if it is installed.
    pub code_editor: Option<String>,
    /// The rejected form.
    pub rejected_form: RejectedForm,
}

/// The values of the fields of all evaluators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvaluatorHeadFields {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Number of the version that the form is based on; empty for a new evaluator.
    pub version: String,
    /// The name that the form is based on.
    pub stored_name: String,
    /// The description that the form is based on.
    pub stored_description: String,
}

/// The stored evaluator differs from the one that the form was opened with.
#[derive(Clone, Debug)]
pub struct EvaluatorConflict {
    /// Number of the stored version.
    pub version: u32,
    /// Fields that differ: the stored value, and the sent one.
    pub fields: Vec<DefinitionChange>,
}

/// The fields of a definition.
#[derive(Clone, Debug)]
pub enum EvaluatorDefinitionFields {
    /// A function of a plug-in.
    Plugin(Box<PluginFields>),
    /// Source code.
    Code(CodeFields),
}

/// The fields of an evaluator of a plug-in.
#[derive(Clone, Debug)]
pub struct PluginFields {
    /// Reference to the plug-in, sent with the form.
    pub reference: String,
    /// Function of the plug-in, sent with the form.
    pub function: String,
    /// Name and version of the plug-in.
    pub plugin: Text,
    /// URL of the page of the plug-in.
    pub plugin_href: String,
    /// The function.
    pub about: PluginEvaluatorView,
    /// Members of the configuration.
    pub config: Vec<ConfigField>,
    /// Further members as JSON; absent if the schema allows none.
    pub others: Option<String>,
    /// Its models.
    pub models: Vec<ModelField>,
    /// Capabilities that the plug-in requests.
    pub grants: Vec<PluginGrant>,
    /// Lines of variable, source and path.
    pub mapping: String,
}

/// The field of a member of a configuration.
#[derive(Clone, Debug)]
pub struct ConfigField {
    /// Name of the field.
    pub name: String,
    /// Label.
    pub label: Text,
    /// Description, bounds and default.
    pub hint: Option<Text>,
    /// Whether the member is required.
    pub is_required: bool,
    /// Its control.
    pub control: ConfigControl,
    /// The value as text.
    pub value: String,
    /// Why the value was refused.
    pub problem: Option<Text>,
}

/// The control of a member of a configuration.
#[derive(Clone, Debug)]
pub enum ConfigControl {
    /// A text.
    Text,
    /// A number with this step.
    Number(&'static str),
    /// One of these values, with their labels.
    Choice(Vec<(String, Text)>),
    /// JSON.
    Json,
}

/// The model of a slot.
#[derive(Clone, Debug)]
pub struct ModelField {
    /// Name of the slot.
    pub name: String,
    /// Its purpose.
    pub description: Text,
    /// Connections: value, label, and whether it is selected.
    pub connections: Vec<(String, Text, bool)>,
    /// Name of the model.
    pub model: String,
}

/// The fields of source code.
#[derive(Clone, Debug)]
pub struct CodeFields {
    /// Languages: value, label, and whether it is selected.
    pub languages: Vec<(&'static str, &'static str, bool)>,
    /// Source.
    pub source: String,
    /// Problems of the source, with their lines.
    pub problems: Vec<SourceProblem>,
    /// Limits of the source and of an evaluation.
    pub limits: Vec<String>,
}

/// A problem of source code.
#[derive(Clone, Debug)]
pub struct SourceProblem {
    /// The line and its neighbors with their numbers; `true` for the line of the problem. Empty without a line.
    pub lines: Vec<(usize, Text, bool)>,
    /// Description.
    pub message: Text,
}

impl EvaluatorFormPage {
    const fn has_code(&self) -> bool {
        matches!(self.definition, EvaluatorDefinitionFields::Code(_))
    }

    /// URL of the script of the text area for source: the code editor, or line numbers.
    fn code_script(&self) -> &str {
        self.code_editor.as_deref().unwrap_or_else(|| assets::path("lines.js"))
    }

    /// URL of the page that the form leads back to.
    fn cancel(&self) -> String {
        match &self.changed {
            Some((_, href)) => href.clone(),
            None => format!("{}/evaluators/new", self.shell.base()),
        }
    }
}

impl SourceProblem {
    /// Number of the line of the problem.
    fn line(&self) -> Option<usize> {
        let faulty = self.lines.iter().find(|(_, _, is_faulty)| *is_faulty)?;
        Some(faulty.0)
    }
}

impl ConfigField {
    /// Lines of a text area for the value.
    fn n_lines(&self) -> usize {
        self.value.lines().count().clamp(1, 16)
    }
}

impl CodeFields {
    /// Lines of the text area for the source.
    fn n_lines(&self) -> usize {
        self.source.lines().count().saturating_add(2).clamp(12, 40)
    }
}
