//! Embeddings: one vector for each text.

use std::sync::Arc;

use perpend_worker_protocol::host_call::FinishReason;
use serde_json::Value;

use crate::endpoint::{CallLimits, Endpoint, ModelSettings};
use crate::failure::{ErrorClass, Failure};
use crate::llm::{Exchange, Facts, Llm, Shared, tokens};
use crate::observe::{CallObserver, Estimate, StructureMethod, Usage};
use crate::params::Params;
use crate::protocol::{self, Embeddings};

impl Llm {
    /// One vector for each text, in order, all of one length.
    ///
    /// # Errors
    /// With the class that tells whether another attempt makes sense.
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
        let kept = observer.recorded_answer(0);
        let kept = kept.and_then(|answer| Shared::kept(&exchange, &answer, read));
        let (vectors, usage) = match kept {
            Some(kept) => kept,
            None => {
                let answered = self.0.exchange(exchange, wire, read).await;
                answered.map_err(|rejected| rejected.failure)?
            }
        };
        if let Some(why) = unusable(&vectors, texts.len()) {
            let message = format!("the provider's embeddings cannot be used: {why}");
            return Err(Failure::new(ErrorClass::MalformedOutput, message));
        }
        Ok((vectors, usage))
    }
}

/// Why the vectors do not fit the texts, if they do not.
fn unusable(vectors: &[Vec<f32>], n_texts: usize) -> Option<String> {
    if vectors.len() != n_texts {
        return Some(format!("{} vectors for {n_texts} texts", vectors.len()));
    }
    let length = vectors.first().map_or(0, Vec::len);
    if length == 0 || vectors.iter().any(|vector| vector.len() != length) {
        return Some("their lengths differ, or are zero".to_owned());
    }
    let is_finite = vectors.iter().flatten().all(|number| number.is_finite());
    (!is_finite).then(|| "a number is not finite".to_owned())
}

fn read(endpoint: &Endpoint, body: Value) -> Result<(Vec<Vec<f32>>, Facts), String> {
    let Embeddings { vectors, usage, model } = protocol::embeddings(endpoint, body)?;
    let facts = Facts { model, finish: FinishReason::Stop, usage, n_bytes: 0, text: None };
    Ok((vectors, facts))
}
