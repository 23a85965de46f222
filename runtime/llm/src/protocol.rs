//! The protocols: each turns a request into an address, headers and a body, and reads the answer's body. No network
//! here.

mod anthropic;
mod azure;
mod google;
mod mock;
mod openai;
mod parts;
mod responses;
mod wire;

use serde_json::Value;

use crate::endpoint::{Endpoint, Protocol};
use crate::failure::{ErrorClass, Failure};
use crate::observe::StructureMethod;
pub(crate) use google::SIGNATURE;
pub(crate) use mock::answer as mock_answer;
pub(crate) use wire::{Ask, Embeddings, REPLY, Reply, Wire};

/// The structure methods of a protocol, best first. With tools of the request the reply cannot be one, and Gemini has
/// either tools or a schema.
pub(crate) const fn methods(endpoint: &Endpoint, has_tools: bool) -> &'static [StructureMethod] {
    match endpoint.protocol {
        Protocol::Anthropic | Protocol::GoogleAiStudio if has_tools => &[StructureMethod::Prompt],
        _ if has_tools => {
            &[StructureMethod::JsonSchema, StructureMethod::JsonMode, StructureMethod::Prompt]
        }
        Protocol::Anthropic => &[StructureMethod::Tool, StructureMethod::Prompt],
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

/// The default output limit of a protocol that requires one.
pub(crate) fn required_limit(endpoint: &Endpoint) -> Option<u32> {
    (endpoint.protocol == Protocol::Anthropic).then_some(anthropic::MAX_TOKENS)
}

/// The request of a completion.
pub(crate) fn complete(endpoint: &Endpoint, ask: &Ask<'_>) -> Result<Wire, Failure> {
    match endpoint.protocol {
        Protocol::OpenAi if endpoint.use_responses_api => responses::complete(endpoint, ask),
        Protocol::OpenAi => openai::complete(endpoint, ask),
        Protocol::Anthropic => anthropic::complete(endpoint, ask),
        Protocol::Azure => azure::complete(endpoint, ask),
        Protocol::GoogleAiStudio => google::complete(endpoint, ask),
        Protocol::Mock => Ok(mock::complete(ask)),
        Protocol::Bedrock | Protocol::GoogleVertexAi => Err(unsupported(endpoint)),
    }
}

/// The reply in an answer's body. An error says what is wrong with the body.
pub(crate) fn reply(endpoint: &Endpoint, body: Value) -> Result<Reply, String> {
    match endpoint.protocol {
        Protocol::OpenAi if endpoint.use_responses_api => responses::reply(body),
        Protocol::Anthropic => anthropic::reply(body),
        Protocol::GoogleAiStudio => google::reply(body),
        _ => openai::reply(body),
    }
}

/// The request for embeddings.
pub(crate) fn embed(
    endpoint: &Endpoint,
    model: &str,
    texts: &[String],
    rest: &serde_json::Map<String, Value>,
) -> Result<Wire, Failure> {
    match endpoint.protocol {
        Protocol::OpenAi => openai::embed(endpoint, model, texts, rest),
        Protocol::Azure => azure::embed(endpoint, model, texts, rest),
        Protocol::GoogleAiStudio => google::embed(endpoint, model, texts, rest),
        Protocol::Mock => Ok(mock::embed(model, texts)),
        Protocol::Anthropic => {
            let message = "Anthropic has no embeddings: choose a model of another provider";
            Err(Failure::new(ErrorClass::ModelConfigInvalid, message))
        }
        Protocol::Bedrock | Protocol::GoogleVertexAi => Err(unsupported(endpoint)),
    }
}

/// The embeddings in an answer's body. An error says what is wrong with the body.
pub(crate) fn embeddings(endpoint: &Endpoint, body: Value) -> Result<Embeddings, String> {
    match endpoint.protocol {
        Protocol::GoogleAiStudio => google::embeddings(body),
        _ => openai::embeddings(body),
    }
}

fn unsupported(endpoint: &Endpoint) -> Failure {
    let message =
        format!("connections with the adapter `{}` cannot be called yet", endpoint.protocol.name());
    Failure::new(ErrorClass::ModelConfigInvalid, message)
}
