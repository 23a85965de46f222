//! Responses for model calls, and their total cost.

use perpend_api_types::execution as contract;
use perpend_domain::model_call::ModelCall;

/// Bytes of a token in estimates.
pub(super) const BYTES_PER_TOKEN: u64 = 4;
/// Assumed length of an output in estimates, tokens.
pub(super) const OUTPUT_TOKENS: u64 = 256;

/// Total cost of calls; `None` without calls, or when a price is unknown.
pub(super) fn cost<'c>(calls: impl IntoIterator<Item = &'c ModelCall>) -> Option<f64> {
    let mut calls = calls.into_iter().peekable();
    calls.peek()?;
    let mut answered = calls.filter(|call| call.error.is_none());
    // `sum` of an empty iterator would be -0.0.
    answered.try_fold(0.0, |sum, call| Some(sum + call.cost?))
}

/// The response for a call. `attempt` starts at 0.
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

#[cfg(test)]
mod tests {
    use perpend_domain::time::Timestamp;

    use super::*;

    fn call(cost: Option<f64>, is_failed: bool) -> ModelCall {
        ModelCall {
            provider: "main".to_owned(),
            model: "m".to_owned(),
            model_answered: None,
            method: "none".to_owned(),
            started_at: Timestamp::default(),
            latency_ms: 1,
            input_tokens: 1,
            cached_tokens: 0,
            output_tokens: 1,
            reasoning_tokens: 0,
            is_estimated: false,
            cost,
            is_from_cache: false,
            saved: None,
            error: is_failed.then(|| ("upstream_timeout".to_owned(), String::new())),
        }
    }

    #[test]
    fn failed_calls_cost_positive_zero_and_an_unknown_price_gives_none() {
        let failed = cost(&[call(None, true)]).unwrap();
        assert!(failed == 0.0 && failed.is_sign_positive());
        assert_eq!(cost(&[call(Some(0.5), false), call(None, true)]), Some(0.5));
        assert_eq!(cost(&[call(Some(0.5), false), call(None, false)]), None);
        assert_eq!(cost(&[]), None);
    }
}
