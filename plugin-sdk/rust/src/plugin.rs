//! From some evaluators to one plug-in.

use crate::{EvalError, Evaluator, EvaluatorInfo, Item, Score};

/// What [`plugin!`](crate::plugin!) implements: a plug-in as the host calls it.
pub trait Plugin {
    /// Who this plug-in is and what it offers.
    fn describe() -> PluginInfo;

    /// Scores one item with one evaluator; `config` is JSON text.
    ///
    /// # Errors
    /// What the evaluator answers, or `invalid-config` when the plug-in has no such evaluator or the
    /// configuration does not fit it.
    fn evaluate(evaluator_id: &str, item: &Item, config: &str) -> Result<Vec<Score>, EvalError>;
}

/// How a plug-in describes itself to the host.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginInfo {
    /// `vendor/name`.
    pub name: &'static str,
    /// The version of the plug-in's crate.
    pub version: &'static str,
    /// What it is for.
    pub description: &'static str,
    /// What it offers.
    pub evaluators: Vec<EvaluatorInfo>,
}

/// Scores one item with `E`, its configuration given as JSON text.
///
/// # Errors
/// What the evaluator answers, or `invalid-config` when the configuration does not fit it.
pub fn evaluate_as<E: Evaluator>(item: &Item, config: &str) -> Result<Vec<Score>, EvalError> {
    let config = serde_json::from_str(config)
        .map_err(|why| EvalError::InvalidConfig(format!("{}: {why}", E::ID)))?;
    E::evaluate(item, &config)
}

/// Makes a plug-in out of evaluators: the type `ThisPlugin`, and in a component its exports.
/// The version is the one of the crate that calls it.
#[macro_export]
macro_rules! plugin {
    (
        name: $name:literal,
        description: $description:literal,
        evaluators: [$($evaluator:ty),+ $(,)?] $(,)?
    ) => {
        /// The plug-in of this crate.
        pub struct ThisPlugin;

        impl $crate::Plugin for ThisPlugin {
            fn describe() -> $crate::PluginInfo {
                $crate::PluginInfo {
                    name: $name,
                    version: env!("CARGO_PKG_VERSION"),
                    description: $description,
                    evaluators: vec![$($crate::EvaluatorInfo::of::<$evaluator>()),+],
                }
            }

            fn evaluate(
                evaluator_id: &str,
                item: &$crate::Item,
                config: &str,
            ) -> Result<Vec<$crate::Score>, $crate::EvalError> {
                $(
                    if evaluator_id == <$evaluator as $crate::Evaluator>::ID {
                        return $crate::evaluate_as::<$evaluator>(item, config);
                    }
                )+
                Err($crate::EvalError::InvalidConfig(format!(
                    "the plug-in has no evaluator {evaluator_id}"
                )))
            }
        }

        #[cfg(target_arch = "wasm32")]
        $crate::guest::export_component!(ThisPlugin);
    };
}
