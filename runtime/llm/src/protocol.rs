//! The protocols: each encodes a request as URL, headers and body, and decodes the response body. No network access.

mod anthropic;
mod azure;
mod bedrock;
mod google;
mod mock;
mod openai;
mod parts;
mod responses;
mod wire;

use serde_json::Value;

use crate::endpoint::{Endpoint, Protocol};
use crate::failure::{ErrorClass, Failure};
use crate::observer::StructureMethod;
pub(crate) use google::SIGNATURE;
pub(crate) use mock::answer as mock_answer;
pub(crate) use wire::{CompletionSpec, Embeddings, EncodedRequest, REPLY, Reply};

/// The structure methods of a protocol, best first. With tools of the request, the method `tool` is unavailable; Gemini
/// supports either tools or a schema.
pub(crate) const fn methods(endpoint: &Endpoint, has_tools: bool) -> &'static [StructureMethod] {
    match endpoint.protocol {
        Protocol::Anthropic | Protocol::Bedrock | Protocol::GoogleAiStudio if has_tools => {
            &[StructureMethod::Prompt]
        }
        _ if has_tools => {
            &[StructureMethod::JsonSchema, StructureMethod::JsonMode, StructureMethod::Prompt]
        }
        Protocol::Anthropic | Protocol::Bedrock => {
            &[StructureMethod::Tool, StructureMethod::Prompt]
        }
        Protocol::GoogleAiStudio => {
            &[StructureMethod::JsonSchema, StructureMethod::JsonMode, StructureMethod::Prompt]
        }
        _ => &[
            StructureMethod::JsonSchema,
            StructureMethod::Tool,
            StructureMethod::JsonMode,
            StructureMethod::Prompt,
        ],
    }
}

/// The default output limit, if the protocol requires one.
pub(crate) fn required_limit(endpoint: &Endpoint) -> Option<u32> {
    (endpoint.protocol == Protocol::Anthropic).then_some(anthropic::MAX_TOKENS)
}

/// Encodes the request for a completion.
pub(crate) fn complete(
    endpoint: &Endpoint,
    spec: &CompletionSpec<'_>,
) -> Result<EncodedRequest, Failure> {
    match endpoint.protocol {
        Protocol::OpenAi if endpoint.use_responses_api => responses::complete(endpoint, spec),
        Protocol::OpenAi => openai::complete(endpoint, spec),
        Protocol::Anthropic => anthropic::complete(endpoint, spec),
        Protocol::Azure => azure::complete(endpoint, spec),
        Protocol::GoogleAiStudio => google::complete(endpoint, spec),
        Protocol::Bedrock => bedrock::complete(endpoint, spec),
        Protocol::Mock => Ok(mock::complete(spec)),
        Protocol::GoogleVertexAi => Err(unsupported(endpoint)),
    }
}

/// Decodes a reply. The error describes the defect of the body.
pub(crate) fn reply(endpoint: &Endpoint, body: Value) -> Result<Reply, String> {
    match endpoint.protocol {
        Protocol::OpenAi if endpoint.use_responses_api => responses::reply(body),
        Protocol::Anthropic => anthropic::reply(body),
        Protocol::Bedrock => bedrock::reply(body),
        Protocol::GoogleAiStudio => google::reply(body),
        _ => openai::reply(body),
    }
}

/// Encodes the request for embeddings.
pub(crate) fn embed(
    endpoint: &Endpoint,
    model: &str,
    texts: &[String],
    rest: &serde_json::Map<String, Value>,
) -> Result<EncodedRequest, Failure> {
    match endpoint.protocol {
        Protocol::OpenAi => openai::embed(endpoint, model, texts, rest),
        Protocol::Azure => azure::embed(endpoint, model, texts, rest),
        Protocol::GoogleAiStudio => google::embed(endpoint, model, texts, rest),
        Protocol::Mock => Ok(mock::embed(model, texts)),
        Protocol::Anthropic | Protocol::Bedrock => {
            let message = format!(
                "the protocol {} has no embeddings; choose a model of another provider",
                endpoint.protocol.name()
            );
            Err(Failure::new(ErrorClass::ModelConfigInvalid, message))
        }
        Protocol::GoogleVertexAi => Err(unsupported(endpoint)),
    }
}

/// Decodes embeddings. The error describes the defect of the body.
pub(crate) fn embeddings(endpoint: &Endpoint, body: Value) -> Result<Embeddings, String> {
    match endpoint.protocol {
        Protocol::GoogleAiStudio => google::embeddings(body),
        _ => openai::embeddings(body),
    }
}

fn unsupported(endpoint: &Endpoint) -> Failure {
    let message = format!(
        "connections with the adapter `{}` are not supported yet",
        endpoint.protocol.name()
    );
    Failure::new(ErrorClass::ModelConfigInvalid, message)
}
