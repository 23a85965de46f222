//! The combination of evaluators to a plug-in.

use crate::{ConfigProblem, EvalError, Evaluator, EvaluatorInfo, Item, Score};

/// A plug-in as the host calls it, implemented by [`plugin!`](crate::plugin!).
pub trait Plugin {
    /// The description of the plug-in.
    fn describe() -> PluginInfo;

    /// Scores one item with one evaluator; `config` is JSON text.
    ///
    /// # Errors
    /// The error of the evaluator, or `invalid-config` when the evaluator is unknown or the configuration
    /// is invalid.
    fn evaluate(evaluator_id: &str, item: &Item, config: &str) -> Result<Vec<Score>, EvalError>;

    /// Scores many items with one evaluator: one result per item, in order.
    fn evaluate_batch(
        evaluator_id: &str,
        items: &[Item],
        config: &str,
    ) -> Vec<Result<Vec<Score>, EvalError>>;

    /// The problems of a configuration that satisfies its schema.
    fn check_config(evaluator_id: &str, config: &str) -> Vec<ConfigProblem>;
}

/// The description of a plug-in for the host.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginInfo {
    /// `vendor/name`.
    pub name: &'static str,
    /// The version of the plug-in's crate.
    pub version: &'static str,
    /// The purpose of the plug-in.
    pub description: &'static str,
    /// The evaluators.
    pub evaluators: Vec<EvaluatorInfo>,
}

/// Scores one item with `E` and a configuration as JSON text.
///
/// # Errors
/// The error of the evaluator, or `invalid-config` when the configuration is invalid.
pub fn evaluate_as<E: Evaluator>(item: &Item, config: &str) -> Result<Vec<Score>, EvalError> {
    E::evaluate(item, &config_of::<E>(config)?)
}

/// Scores many items with `E`; an invalid configuration is the same error for each.
pub fn evaluate_batch_as<E: Evaluator>(
    items: &[Item],
    config: &str,
) -> Vec<Result<Vec<Score>, EvalError>> {
    match config_of::<E>(config) {
        Ok(config) => E::evaluate_batch(items, &config),
        Err(error) => items.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// The problems of a configuration of `E`, as JSON text.
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

/// Defines a plug-in of evaluators: the type `ThisPlugin`, and in a component its exports. Its version is
/// that of the calling crate.
///
/// `exports: [batch, config_check]`, or one of them, exports
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

/// The error for an unknown evaluator.
#[must_use]
pub fn no_evaluator(id: &str) -> EvalError {
    EvalError::InvalidConfig(format!("unknown evaluator {id}"))
}
