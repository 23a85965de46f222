//! Embeddings.

use std::sync::Arc;

use perpend_worker_protocol::host_call::FinishReason;
use serde_json::Value;

use crate::endpoint::{CallLimits, Endpoint, ModelSettings};
use crate::failure::{ErrorClass, Failure};
use crate::llm::{Exchange, Llm, ReplyMetadata, Shared, tokens};
use crate::observer::{CallObserver, Estimate, StructureMethod, Usage};
use crate::params::Params;
use crate::protocol::{self, Embeddings};

impl Llm {
    /// Returns one vector for each text, in order. All vectors have the same length.
    ///
    /// # Errors
    /// The class of the failure tells whether another attempt may succeed.
    pub async fn embed(
        &self,
        endpoint: &Endpoint,
        choice: &ModelSettings,
        limits: &CallLimits,
        texts: &[String],
        observer: Arc<dyn CallObserver>,
    ) -> Result<(Vec<Vec<f32>>, Usage), Failure> {
        if texts.is_empty() {
            return Ok((Vec::new(), Usage::default()));
        }
        let n_tokens = texts.iter().map(|text| tokens(text.len())).sum();
        let exchange = Exchange {
            endpoint: Arc::new(endpoint.clone()),
            observer: Arc::clone(&observer),
            timeout: limits.timeout,
            estimate: Estimate {
                connection_id: endpoint.connection_id.clone(),
                provider: endpoint.provider.clone(),
                model: choice.model.clone(),
                input_tokens: n_tokens,
                max_output_tokens: Some(0),
            },
            method: StructureMethod::None,
            number: 1,
            reask: 0,
            messages: Arc::default(),
            params: choice.params.clone(),
        };
        let wire = Params::of_user(choice)
            .and_then(|params| protocol::embed(endpoint, &choice.model, texts, &params.rest));
        let wire = wire.map_err(|mut failure| {
            failure.is_unsent = true;
            failure
        })?;
        let recorded = observer.recorded_answer(0);
        let recorded = recorded.and_then(|answer| Shared::parse_recorded(&exchange, &answer, read));
        let (vectors, usage) = match recorded {
            Some(recorded) => recorded,
            None => {
                let result = self.0.exchange(exchange, wire, read).await;
                result.map_err(|rejection| rejection.failure)?
            }
        };
        if let Some(defect) = unusable(&vectors, texts.len()) {
            let message = format!("the provider's embeddings cannot be used: {defect}");
            return Err(Failure::new(ErrorClass::MalformedOutput, message));
        }
        Ok((vectors, usage))
    }
}

/// The defect of the vectors, if any.
fn unusable(vectors: &[Vec<f32>], n_texts: usize) -> Option<String> {
    if vectors.len() != n_texts {
        return Some(format!("{} vectors for {n_texts} texts", vectors.len()));
    }
    let length = vectors.first().map_or(0, Vec::len);
    if length == 0 || vectors.iter().any(|vector| vector.len() != length) {
        return Some("the vectors are empty or have different lengths".to_owned());
    }
    let is_finite = vectors.iter().flatten().all(|number| number.is_finite());
    (!is_finite).then(|| "a number is not finite".to_owned())
}

fn read(endpoint: &Endpoint, body: Value) -> Result<(Vec<Vec<f32>>, ReplyMetadata), String> {
    let Embeddings { vectors, usage, model } = protocol::embeddings(endpoint, body)?;
    let metadata =
        ReplyMetadata { model, finish: FinishReason::Stop, usage, n_bytes: 0, text: None };
    Ok((vectors, metadata))
}
