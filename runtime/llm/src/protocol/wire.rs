//! Types shared by all protocols: the request before encoding, the encoded request, and the decoded reply.

use std::collections::BTreeSet;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use perpend_worker_protocol::host_call::{
    FinishReason, Medium, Message, Role, TokenLogprob, Tool, ToolCall, ToolChoice,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Deserializer};
use serde_json::{Map, Value};
use url::Url;

use crate::capabilities::Quirk;
use crate::endpoint::Endpoint;
use crate::failure::{ErrorClass, Failure};
use crate::observer::{StructureMethod, Usage};
use crate::params::Params;
use crate::response_schema::ResponseSchema;

/// Name of the schema, and of the tool of the method `tool`.
pub(crate) const REPLY: &str = "reply";
pub(crate) const REPLY_DESCRIPTION: &str = "Gives the reply.";

/// A request for a completion, before encoding.
pub(crate) struct CompletionSpec<'a> {
    pub(crate) model: &'a str,
    pub(crate) messages: &'a [Message],
    pub(crate) structure: StructureMethod,
    /// Present unless `structure` is `StructureMethod::None`.
    pub(crate) schema: Option<&'a ResponseSchema>,
    pub(crate) params: &'a Params,
    pub(crate) quirks: &'a BTreeSet<Quirk>,
    /// The tools of the request; empty with the method `tool`.
    pub(crate) tools: &'a [Tool],
    pub(crate) tool_choice: &'a ToolChoice,
    pub(crate) media: &'a [Medium],
}

impl CompletionSpec<'_> {
    /// The schema, if the provider enforces it.
    pub(crate) fn native(&self) -> Option<&ResponseSchema> {
        self.schema.filter(|_| self.structure == StructureMethod::JsonSchema)
    }

    /// The schema, if it is that of the tool of the method `tool`.
    pub(crate) fn tool(&self) -> Option<&ResponseSchema> {
        self.schema.filter(|_| self.structure == StructureMethod::Tool)
    }

    pub(crate) fn is_json_mode(&self) -> bool {
        self.structure == StructureMethod::JsonMode
    }

    pub(crate) fn seed(&self) -> Option<u64> {
        let is_omitted = self.quirks.contains(&Quirk::NoSeed) && !self.params.is_seed_of_user;
        self.params.seed.filter(|_| !is_omitted)
    }

    pub(crate) fn top_logprobs(&self) -> Option<u8> {
        let is_omitted = self.quirks.contains(&Quirk::NoLogprobs);
        self.params.top_logprobs.filter(|_| !is_omitted)
    }
}

/// An encoded request. It has no `Debug` because it contains the key.
pub(crate) struct EncodedRequest {
    pub(crate) url: String,
    /// The headers of the protocol, including the key.
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

/// A decoded reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) text: String,
    /// Calls of the tools of the request, or of the tool of the method `tool`. Ids may be empty or duplicate.
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) finish: FinishReason,
    /// The reason why the model or the provider refused.
    pub(crate) refusal: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) logprobs: Vec<TokenLogprob>,
    pub(crate) model: Option<String>,
}

impl Reply {
    /// JSON from the arguments of the tool of the method `tool`. Excludes the empty arguments of a truncated reply, which
    /// would match a schema without required members.
    pub(crate) fn structured(&self) -> impl Iterator<Item = &str> {
        let arguments = self.calls.iter().map(|call| call.arguments.as_str());
        arguments.filter(|text| *text != "{}" || self.finish != FinishReason::Length)
    }
}

/// A vector for each text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Embeddings {
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) usage: Option<Usage>,
    pub(crate) model: Option<String>,
}

pub(crate) const fn role(message: &Message) -> &'static str {
    match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// The base URL of a connection, with `{model}` replaced by the model.
pub(crate) fn base(endpoint: &Endpoint, vendor: &str, model: &str) -> Result<Url, Failure> {
    let text = endpoint.base_url.as_deref().unwrap_or(vendor).trim();
    let model = utf8_percent_encode(model, NON_ALPHANUMERIC).to_string();
    let text = text.replace("{model}", &model);
    let url = Url::parse(&text).ok();
    let is_usable = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
    };
    url.filter(is_usable).ok_or_else(|| {
        let message =
            "the base URL of the connection must be an http or https URL without a user name";
        Failure::new(ErrorClass::ModelConfigInvalid, message)
    })
}

/// The non-empty segments of a path.
pub(crate) fn segments(url: &Url) -> Vec<String> {
    let segments = url.path_segments().into_iter().flatten();
    let decoded = |segment: &str| {
        percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
    };
    segments.filter(|segment| !segment.is_empty()).map(decoded).collect()
}

/// Replaces the path of a URL.
pub(crate) fn with_path(mut url: Url, segments: &[String]) -> Url {
    // URLs with http or https always have a path.
    if let Ok(mut path) = url.path_segments_mut() {
        path.clear().extend(segments);
    }
    url
}

/// Appends segments to the path of a URL, unless it ends with them.
pub(crate) fn ending_in(url: Url, ending: &[&str]) -> Url {
    let mut path = segments(&url);
    if !path.iter().map(String::as_str).rev().take(ending.len()).eq(ending.iter().rev().copied()) {
        path.extend(ending.iter().map(|&segment| segment.to_owned()));
    }
    with_path(url, &path)
}

/// Serializes a body and adds the members of `rest`, which take precedence.
pub(crate) fn body(body: &impl serde::Serialize, rest: &Map<String, Value>) -> Value {
    // The structs of this module always serialize to objects.
    let mut body = serde_json::to_value(body).unwrap_or_default();
    if let Value::Object(members) = &mut body {
        members.extend(rest.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    body
}

pub(crate) fn read<T: DeserializeOwned>(body: Value) -> Result<T, String> {
    serde_json::from_value(body).map_err(|error| format!("unknown format: {error}"))
}

/// Deserializes an optional part of a response. Invalid values, which some compatible servers send, become `None`.
pub(crate) fn lenient<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}
