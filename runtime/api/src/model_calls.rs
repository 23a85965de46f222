//! Exchanges with model providers as they are shown, and what they cost together.

use perpend_contract::execution as contract;
use perpend_domain::model_call::ModelCall;

/// What calls cost together; nothing where there are none, or the price of one is not known.
pub(super) fn cost<'c>(calls: impl IntoIterator<Item = &'c ModelCall>) -> Option<f64> {
    let mut calls = calls.into_iter().peekable();
    calls.peek()?;
    let mut answered = calls.filter(|call| call.error.is_none());
    // The sum of no numbers would be -0.0.
    answered.try_fold(0.0, |sum, call| Some(sum + call.cost?))
}

/// As it is shown; the attempt counts from 0.
pub(super) fn view((attempt, call): (u32, ModelCall)) -> contract::ModelCall {
    let (class, message) = call.error.unzip();
    contract::ModelCall {
        attempt: attempt + 1,
        provider: call.provider,
        model: call.model,
        model_answered: call.model_answered,
        method: call.method,
        started_at: call.started_at,
        latency_ms: call.latency_ms,
        input_tokens: call.input_tokens,
        cached_tokens: call.cached_tokens,
        output_tokens: call.output_tokens,
        reasoning_tokens: call.reasoning_tokens,
        estimated: call.is_estimated,
        cost_usd: call.cost,
        from_cache: call.is_from_cache,
        saved_usd: call.saved,
        error_class: class,
        error_message: message,
    }
}
