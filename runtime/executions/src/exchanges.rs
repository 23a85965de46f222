//! Attempts whose evaluator calls models, and their exchanges with providers.

use perpend_domain::ids::{EvaluatorId, ExecutionId, ProjectId, RuleId};
use perpend_domain::model_call::ModelCall;
use perpend_domain::plugin::Digest;

/// The attempt that makes model calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptKey {
    /// The tenant.
    pub project: ProjectId,
    /// The execution.
    pub execution: ExecutionId,
    /// The rule of the execution.
    pub rule: RuleId,
    /// The evaluator of the execution.
    pub evaluator: EvaluatorId,
    /// Number of the attempt, from 0.
    pub attempt: u32,
    /// The fence of its lease.
    pub fence: i64,
}

/// Key of a call within an attempt: its position and its request. A repeated attempt makes calls with equal
/// keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKey {
    /// Position of the call in the attempt, from 0.
    pub call: u32,
    /// SHA-256 of the request of the evaluator.
    pub request: Digest,
}

/// A usable response of a provider, kept for later attempts of the same execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResponse {
    /// The method that requested structured output, such as `json_schema`.
    pub method: String,
    /// The body of the response.
    pub body: String,
    /// Whether the response comes from the store of replies and cost nothing.
    pub is_from_cache: bool,
}

/// One exchange with a provider, as it is written.
#[derive(Clone, Copy, Debug)]
pub struct NewExchange<'e> {
    /// The call to which the exchange belongs.
    pub key: &'e CallKey,
    /// Request, response, usage and cost.
    pub call: &'e ModelCall,
    /// The usable response, and its number within the call, from 0.
    pub answer: Option<(u32, &'e KeptResponse)>,
    /// The id of the reservation for the call.
    pub reservation: Option<&'e str>,
}
