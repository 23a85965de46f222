//! From some evaluators to one plug-in.

use crate::{ConfigProblem, EvalError, Evaluator, EvaluatorInfo, Item, Score};

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

    /// Scores many items with one evaluator: one answer per item, in order.
    fn evaluate_batch(
        evaluator_id: &str,
        items: &[Item],
        config: &str,
    ) -> Vec<Result<Vec<Score>, EvalError>>;

    /// What is wrong with a configuration that satisfies its schema.
    fn check_config(evaluator_id: &str, config: &str) -> Vec<ConfigProblem>;
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
    E::evaluate(item, &config_of::<E>(config)?)
}

/// Scores many items with `E`: the same error for each when the configuration does not fit.
pub fn evaluate_batch_as<E: Evaluator>(
    items: &[Item],
    config: &str,
) -> Vec<Result<Vec<Score>, EvalError>> {
    match config_of::<E>(config) {
        Ok(config) => E::evaluate_batch(items, &config),
        Err(error) => items.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// What `E` has against a configuration, given as JSON text.
pub fn check_config_as<E: Evaluator>(config: &str) -> Vec<ConfigProblem> {
    match config_of::<E>(config) {
        Ok(config) => E::check_config(&config),
        Err(error) => vec![ConfigProblem::at("", error.text())],
    }
}

fn config_of<E: Evaluator>(config: &str) -> Result<E::Config, EvalError> {
    serde_json::from_str(config)
        .map_err(|why| EvalError::InvalidConfig(format!("{}: {why}", E::ID)))
}

/// Makes a plug-in out of evaluators: the type `ThisPlugin`, and in a component its exports.
/// The version is the one of the crate that calls it.
///
/// `exports: [batch, config_check]`, or one of them, opts in to
/// [`Evaluator::evaluate_batch`](crate::Evaluator::evaluate_batch) and
/// [`Evaluator::check_config`](crate::Evaluator::check_config).
#[macro_export]
macro_rules! plugin {
    (
        name: $name:literal,
        description: $description:literal,
        evaluators: [$($evaluator:ty),+ $(,)?]
        $(, exports: [$($export:ident),* $(,)?])? $(,)?
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
                Err($crate::no_evaluator(evaluator_id))
            }

            fn evaluate_batch(
                evaluator_id: &str,
                items: &[$crate::Item],
                config: &str,
            ) -> Vec<Result<Vec<$crate::Score>, $crate::EvalError>> {
                $(
                    if evaluator_id == <$evaluator as $crate::Evaluator>::ID {
                        return $crate::evaluate_batch_as::<$evaluator>(items, config);
                    }
                )+
                items.iter().map(|_| Err($crate::no_evaluator(evaluator_id))).collect()
            }

            fn check_config(evaluator_id: &str, config: &str) -> Vec<$crate::ConfigProblem> {
                $(
                    if evaluator_id == <$evaluator as $crate::Evaluator>::ID {
                        return $crate::check_config_as::<$evaluator>(config);
                    }
                )+
                vec![$crate::ConfigProblem::at("", $crate::no_evaluator(evaluator_id).text())]
            }
        }

        #[cfg(target_arch = "wasm32")]
        $crate::guest::export_component!(ThisPlugin);
        $($(
            #[cfg(target_arch = "wasm32")]
            $crate::export_optional!($export);
        )*)?
    };
}

/// One optional export of `plugin!`.
#[doc(hidden)]
#[macro_export]
macro_rules! export_optional {
    (batch) => {
        $crate::guest::export_batch!(ThisPlugin);
    };
    (config_check) => {
        $crate::guest::export_config_check!(ThisPlugin);
    };
}

/// The answer of a plug-in that lacks the evaluator it was asked for.
#[must_use]
pub fn no_evaluator(id: &str) -> EvalError {
    EvalError::InvalidConfig(format!("the plug-in has no evaluator {id}"))
}
