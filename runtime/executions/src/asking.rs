//! Attempts that ask models, and what they exchange with providers.

use perpend_domain::ids::{EvaluatorId, ExecutionId, ProjectId, RuleId};
use perpend_domain::model_call::ModelCall;
use perpend_domain::plugin::Digest;

/// The attempt that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskingAttempt {
    /// The tenant.
    pub project: ProjectId,
    /// The execution.
    pub execution: ExecutionId,
    /// Of which rule.
    pub rule: RuleId,
    /// Of which evaluator.
    pub evaluator: EvaluatorId,
    /// Counted from 0.
    pub attempt: u32,
    /// The fence of its lease.
    pub fence: i64,
}

/// A call of an attempt: its place, and what is asked. An attempt that is made again makes equal calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKey {
    /// Counted from 0.
    pub call: u32,
    /// SHA-256 of what the evaluator asks.
    pub request: Digest,
}

/// An answer of a provider as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// How a structured reply was asked for, such as `json_schema`.
    pub method: String,
    /// The body of the answer.
    pub body: String,
    /// It was stored before for an equal request, and cost nothing.
    pub is_from_cache: bool,
}

/// One exchange as it is written.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged<'e> {
    /// The call that it belongs to.
    pub key: &'e CallKey,
    /// What was exchanged.
    pub call: &'e ModelCall,
    /// The usable answer, and its number in the call from 0.
    pub answer: Option<(u32, &'e KeptAnswer)>,
    /// What was reserved for it.
    pub reservation: Option<&'e str>,
}
