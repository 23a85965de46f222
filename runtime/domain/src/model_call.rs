//! The record of one model call: model, latency, tokens, cost.

use crate::time::Timestamp;

/// One exchange with a provider, answered or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCall {
    /// The name of the connection.
    pub provider: String,
    /// The requested model.
    pub model: String,
    /// The model that replied, if the provider reports it.
    pub model_answered: Option<String>,
    /// The method of the structured reply, such as `json_schema`.
    pub method: String,
    /// When the request was sent.
    pub started_at: Timestamp,
    /// Time to the end of the reply, milliseconds.
    pub latency_ms: u64,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cached_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
    /// Of these, spent on reasoning.
    pub reasoning_tokens: u64,
    /// The provider counted no tokens: they are estimated from bytes.
    pub is_estimated: bool,
    /// US dollars; `None` where the price of the model is not known.
    pub cost: Option<f64>,
    /// The reply is from the cache: no request was sent, and `cost` is 0.
    pub is_from_cache: bool,
    /// Cost saved by the cache, US dollars; `None` if nothing was saved or the price is unknown.
    pub saved: Option<f64>,
    /// Class and message of a failure.
    pub error: Option<(String, String)>,
}
