//! The component's side: bindings generated from `wit/`, and the step between their types and ours.
//! Exists in components only. What authors use of it: [`log`], [`seed`] and [`run_time_ms`].

use crate::{Domain, EvalError, Item, Json, Parts, Payload, Plugin, Score, ScoreValue, TraceRef};
use bindings::assay::evaluator::{context, log as host_log, types};
use bindings::exports::assay::evaluator::evaluator::Guest;

/// Generated from the contract.
#[expect(missing_docs, reason = "generated; the WIT files carry the text")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../wit",
        world: "scorer",
        pub_export_macro: true,
        export_macro_name: "export_component",
        default_bindings_module: "assay_plugin::guest::bindings",
    });
}

pub use bindings::export_component;
pub use host_log::Level;

/// A number derived from plug-in, evaluator, configuration and item: seed random generators with it.
#[must_use]
pub fn seed() -> u64 {
    context::seed()
}

/// The moment the run started, in milliseconds since 1970.
#[must_use]
pub fn run_time_ms() -> u64 {
    context::run_time()
}

/// Adds a line to the log of this evaluation.
pub fn log(level: Level, message: &str) {
    host_log::log(level, message, None);
}

impl<P: Plugin> Guest for P {
    fn describe() -> types::PluginInfo {
        let info = P::describe();
        types::PluginInfo {
            name: info.name.to_owned(),
            version: info.version.to_owned(),
            description: info.description.to_owned(),
            evaluators: info.evaluators.into_iter().map(evaluator).collect(),
        }
    }

    fn evaluate(
        evaluator_id: String,
        item: types::Item,
        config: String,
    ) -> Result<Vec<types::Score>, types::EvalError> {
        match P::evaluate(&evaluator_id, &from_wire(item), &config) {
            Ok(scores) => Ok(scores.into_iter().map(score).collect()),
            Err(why) => Err(error(why)),
        }
    }
}

fn evaluator(info: crate::EvaluatorInfo) -> types::EvaluatorInfo {
    let scores = info.scores.iter().map(|spec| types::ScoreSpec {
        name: spec.name.to_owned(),
        description: spec.description.to_owned(),
        domain: domain(spec.domain),
    });
    types::EvaluatorInfo {
        id: info.id.to_owned(),
        title: info.title.to_owned(),
        description: info.description.to_owned(),
        config_schema: info.config_schema,
        needs: parts(info.needs),
        slots: Vec::new(),
        scores: scores.collect(),
        dynamic_scores: false,
        deterministic: info.deterministic,
    }
}

fn domain(domain: Domain) -> types::ScoreDomain {
    match domain {
        Domain::Numeric {
            min,
            max,
            higher_is_better,
        } => types::ScoreDomain::Numeric(types::NumericRange {
            min,
            max,
            higher_is_better,
        }),
        Domain::Boolean => types::ScoreDomain::Boolean,
        Domain::Categorical(names) => {
            types::ScoreDomain::Categorical(names.iter().map(|name| (*name).to_owned()).collect())
        }
    }
}

fn parts(parts: Parts) -> types::ItemParts {
    let named = [
        (parts.input, types::ItemParts::INPUT),
        (parts.output, types::ItemParts::OUTPUT),
        (parts.expected_output, types::ItemParts::EXPECTED_OUTPUT),
        (parts.metadata, types::ItemParts::METADATA),
        (parts.trace, types::ItemParts::TRACE),
    ];
    let wanted = named.into_iter().filter(|(wanted, _)| *wanted);
    wanted.fold(types::ItemParts::empty(), |all, (_, part)| all | part)
}

fn from_wire(item: types::Item) -> Item {
    let payload = |value| match value {
        types::Payload::Text(text) => Payload::Text(text),
        types::Payload::Json(text) => Payload::Json(text),
    };
    Item {
        id: item.id,
        input: item.input.map(payload),
        output: item.output.map(payload),
        expected_output: item.expected_output.map(payload),
        metadata: item.metadata,
        trace: item.trace.map(|trace| TraceRef {
            trace_id: trace.trace_id,
            observation_id: trace.observation_id,
        }),
    }
}

fn score(score: Score) -> types::Score {
    let has_metadata = !score.metadata.is_empty();
    types::Score {
        name: score.name,
        value: match score.value {
            ScoreValue::Numeric(number) => types::ScoreValue::Numeric(number),
            ScoreValue::Boolean(yes) => types::ScoreValue::Boolean(yes),
            ScoreValue::Categorical(name) => types::ScoreValue::Categorical(name),
        },
        observation_id: score.observation_id,
        comment: score.comment,
        metadata: has_metadata.then(|| Json::Object(score.metadata).to_string()),
    }
}

fn error(error: EvalError) -> types::EvalError {
    match error {
        EvalError::InvalidConfig(text) => types::EvalError::InvalidConfig(text),
        EvalError::InvalidInput(text) => types::EvalError::InvalidInput(text),
        EvalError::NotApplicable(text) => types::EvalError::NotApplicable(text),
        EvalError::Upstream(text) => types::EvalError::Upstream(text),
        EvalError::Transient(text) => types::EvalError::Transient(text),
        EvalError::Internal(text) => types::EvalError::Internal(text),
    }
}
