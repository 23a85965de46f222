//! The bindings generated from `wit/`, and the conversions between their types and those of the SDK.
//! It exists in components only. Plug-ins use [`host`](crate::host), [`model`](crate::model) and
//! [`trace`](crate::trace) instead.

pub(crate) mod calls;
mod print;

use crate::model::{Slot, SlotKind};
use crate::{Domain, EvalError, Item, Json, Parts, Payload, Plugin, Score, ScoreValue, TraceRef};
use bindings::exports::perpend::evaluator::evaluator::Guest;
use bindings::perpend::evaluator::types;

/// Generated from the contract by `cargo xtask generate`. A component imports only the functions it calls: the linker removes the others.
#[expect(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated; the WIT files carry the text"
)]
pub mod bindings {
    include!("../bindings/bindings.rs");
}

/// Each optional export has its own world, so that a plug-in opts in to each.
#[expect(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated; the WIT files carry the text"
)]
pub mod batch {
    include!("../bindings/batch.rs");
}

/// See [`batch`].
#[expect(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    reason = "generated; the WIT files carry the text"
)]
pub mod config_check {
    include!("../bindings/config_check.rs");
}

pub use batch::export_batch;
pub use bindings::export_component;
pub use config_check::export_config_check;

impl<P: Plugin> batch::exports::perpend::evaluator::batch::Guest for P {
    fn evaluate_batch(
        evaluator_id: String,
        items: Vec<types::Item>,
        config: String,
    ) -> Vec<Result<Vec<types::Score>, types::EvalError>> {
        let items: Vec<Item> = items.into_iter().map(from_wire).collect();
        let outcomes = P::evaluate_batch(&evaluator_id, &items, &config);
        print::flush();
        outcomes.into_iter().map(to_wire).collect()
    }
}

impl<P: Plugin> config_check::exports::perpend::evaluator::config_check::Guest for P {
    fn check_config(
        evaluator_id: String,
        config: String,
    ) -> Vec<config_check::exports::perpend::evaluator::config_check::Problem> {
        P::check_config(&evaluator_id, &config)
            .into_iter()
            .map(|problem| config_check::exports::perpend::evaluator::config_check::Problem {
                pointer: problem.pointer,
                message: problem.message,
            })
            .collect()
    }
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
        let outcome = P::evaluate(&evaluator_id, &from_wire(item), &config);
        print::flush();
        to_wire(outcome)
    }
}

fn to_wire(outcome: Result<Vec<Score>, EvalError>) -> Result<Vec<types::Score>, types::EvalError> {
    match outcome {
        Ok(scores) => Ok(scores.into_iter().map(score).collect()),
        Err(why) => Err(error(why)),
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
        slots: info.slots.iter().map(slot).collect(),
        scores: scores.collect(),
        dynamic_scores: info.dynamic_scores,
        deterministic: info.deterministic,
    }
}

fn slot(slot: &Slot) -> types::ModelSlot {
    types::ModelSlot {
        name: slot.name.to_owned(),
        description: slot.description.to_owned(),
        kind: match slot.kind {
            SlotKind::Chat => types::SlotKind::Chat,
            SlotKind::Embedding => types::SlotKind::Embedding,
        },
        required: slot.required,
    }
}

fn domain(domain: Domain) -> types::ScoreDomain {
    match domain {
        Domain::Numeric { min, max, higher_is_better } => {
            types::ScoreDomain::Numeric(types::NumericRange { min, max, higher_is_better })
        }
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
    let needed = named.into_iter().filter(|(is_needed, _)| *is_needed);
    needed.fold(types::ItemParts::empty(), |all, (_, part)| all | part)
}

pub(crate) fn payload(value: types::Payload) -> Payload {
    match value {
        types::Payload::Text(text) => Payload::Text(text),
        types::Payload::Json(text) => Payload::Json(text),
    }
}

fn from_wire(item: types::Item) -> Item {
    Item {
        id: item.id,
        input: item.input.map(payload),
        output: item.output.map(payload),
        expected_output: item.expected_output.map(payload),
        metadata: item.metadata,
        trace: item.trace.map(trace_ref),
        session: item.session,
        run: item.run,
    }
}

pub(crate) fn trace_ref(trace: types::TraceRef) -> TraceRef {
    TraceRef { trace_id: trace.trace_id, observation_id: trace.observation_id }
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
