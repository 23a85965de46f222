//! The evaluator trait and its types.

use crate::model::Slot;
use crate::{EvalError, Item, Score, ScoreSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// One scoring function. The type is never instantiated: the trait has associated items only.
pub trait Evaluator {
    /// Unique within the plug-in: 1 to 64 of `a-z`, `0-9` and `-`, starting with a letter.
    const ID: &'static str;
    /// For lists and menus.
    const TITLE: &'static str;
    /// The description, one or more paragraphs of plain text.
    const DESCRIPTION: &'static str;
    /// The parts of an item it reads. Other parts are not loaded.
    const NEEDS: Parts = Parts::OUTPUT;
    /// The scores it may give.
    const SCORES: &'static [ScoreSpec];
    /// The slots of the models it calls; the first of a kind is the default slot.
    const SLOTS: &'static [Slot] = &[];
    /// True when score names depend on the configuration or the data, so that they are not all declared.
    const DYNAMIC_SCORES: bool = false;
    /// True when equal items and configurations always have equal scores.
    const DETERMINISTIC: bool = true;

    /// The configuration. The host validates it against its JSON Schema and fills in defaults.
    type Config: DeserializeOwned + JsonSchema;

    /// Scores one item. An empty list means that there is nothing to report.
    ///
    /// # Errors
    /// When there is no score; see [`EvalError`].
    fn evaluate(item: &Item, config: &Self::Config) -> Result<Vec<Score>, EvalError>;

    /// Scores many items that can share work: one result per item, in order, each equal to that of
    /// [`Self::evaluate`]. Called only when `plugin!` exports `batch`.
    fn evaluate_batch(items: &[Item], config: &Self::Config) -> Vec<Result<Vec<Score>, EvalError>> {
        items.iter().map(|item| Self::evaluate(item, config)).collect()
    }

    /// The problems of a configuration that its JSON Schema cannot express. Called only when `plugin!`
    /// exports `config_check`.
    fn check_config(_config: &Self::Config) -> Vec<ConfigProblem> {
        Vec::new()
    }
}

/// A problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// JSON Pointer into the configuration; empty for the whole of it.
    pub pointer: String,
    /// The message for users.
    pub message: String,
}

impl ConfigProblem {
    /// A problem at a JSON Pointer, such as `/max_chars`.
    pub fn at(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}

/// The configuration of an evaluator that has nothing to configure.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoConfig {}

/// Parts of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// [`Item::input`].
    pub input: bool,
    /// [`Item::output`].
    pub output: bool,
    /// [`Item::expected_output`].
    pub expected_output: bool,
    /// [`Item::metadata`].
    pub metadata: bool,
    /// [`Item::trace`].
    pub trace: bool,
}

impl Parts {
    /// No parts.
    pub const NONE: Self =
        Self { input: false, output: false, expected_output: false, metadata: false, trace: false };
    /// The output only.
    pub const OUTPUT: Self = Self { output: true, ..Self::NONE };
    /// Output and expected output.
    pub const OUTPUT_AND_EXPECTED: Self = Self { expected_output: true, ..Self::OUTPUT };
}

/// The description of an evaluator for the host.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluatorInfo {
    /// [`Evaluator::ID`].
    pub id: &'static str,
    /// [`Evaluator::TITLE`].
    pub title: &'static str,
    /// [`Evaluator::DESCRIPTION`].
    pub description: &'static str,
    /// The JSON Schema of [`Evaluator::Config`], as JSON text.
    pub config_schema: String,
    /// [`Evaluator::NEEDS`].
    pub needs: Parts,
    /// [`Evaluator::SLOTS`].
    pub slots: &'static [Slot],
    /// [`Evaluator::SCORES`].
    pub scores: &'static [ScoreSpec],
    /// [`Evaluator::DYNAMIC_SCORES`].
    pub dynamic_scores: bool,
    /// [`Evaluator::DETERMINISTIC`].
    pub deterministic: bool,
}

impl EvaluatorInfo {
    /// The description of `E`.
    #[must_use]
    pub fn of<E: Evaluator>() -> Self {
        Self {
            id: E::ID,
            title: E::TITLE,
            description: E::DESCRIPTION,
            config_schema: schema::<E::Config>(),
            needs: E::NEEDS,
            slots: E::SLOTS,
            scores: E::SCORES,
            dynamic_scores: E::DYNAMIC_SCORES,
            deterministic: E::DETERMINISTIC,
        }
    }
}

/// The JSON Schema with inline subschemas, so that forms need not resolve references.
pub(crate) fn schema<C: JsonSchema>() -> String {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.into_generator().into_root_schema_for::<C>().as_value().to_string()
}
