//! One decoded span with what surrounds it: all that the rules look at.

use perpend_domain::join::{CHOICE, OPERATION_DETAILS, message_role};
use serde_json::{Map, Value as Json};

use crate::attributes::{Attributes, to_content};
use crate::model::{Scope, Span};
use crate::request::Context;

/// Everything the rules look at.
#[derive(Debug)]
pub(crate) struct Source<'s> {
    pub(crate) span: &'s Span<'s>,
    pub(crate) attributes: &'s Attributes<'s>,
    pub(crate) scope: &'s Scope<'s>,
    pub(crate) resource: &'s Attributes<'s>,
    pub(crate) context: &'s Context,
    /// `gen_ai.operation.name`.
    pub(crate) operation: Option<&'s str>,
    /// The AI SDK's operation, `ai.…`.
    pub(crate) ai_operation: Option<&'s str>,
    /// Native metadata values are JSON texts.
    pub(crate) encodes_metadata: bool,
}

impl<'s> Source<'s> {
    pub(crate) fn new(
        span: &'s Span<'s>,
        attributes: &'s Attributes<'s>,
        scope: &'s Scope<'s>,
        resource: &'s Attributes<'s>,
        context: &'s Context,
    ) -> Self {
        let ai_operation = attributes
            .text("ai.operationId")
            .or_else(|| attributes.text("operation.name")?.split_whitespace().next())
            .filter(|operation| operation.starts_with("ai."));
        let mut source = Self {
            span,
            attributes,
            scope,
            resource,
            context,
            operation: attributes.text("gen_ai.operation.name"),
            ai_operation,
            encodes_metadata: false,
        };
        source.encodes_metadata = values_are_encoded(&source);
        source
    }

    /// Whether Logfire made the span: only there do some bare words mean content.
    pub(crate) fn is_logfire(&self) -> bool {
        self.scope.name.contains("logfire") || self.attributes.has_prefix("logfire.")
    }

    /// Span events that carry content, in order of time.
    pub(crate) fn events(&self) -> Vec<(&'s str, Map<String, Json>)> {
        let mut events: Vec<_> = self
            .span
            .events
            .iter()
            .filter(|event| {
                let name = event.name.as_ref();
                message_role(name).is_some() || matches!(name, CHOICE | OPERATION_DETAILS)
            })
            .collect();
        events.sort_by_key(|event| event.time_nanos);
        events
            .into_iter()
            .map(|event| (event.name.as_ref(), to_content(&event.attributes.pairs)))
            .collect()
    }
}

/// Whether the sender encodes every metadata value as JSON: the Python SDK from major version 5 on.
fn values_are_encoded(source: &Source<'_>) -> bool {
    let is_new = |text: &str| version(text).is_some_and(|(major, _)| major >= 5);
    let context = source.context;
    match (&context.sdk_name, &context.sdk_version) {
        (Some(name), Some(version)) => name == "python" && is_new(version),
        _ => {
            source.scope.name.starts_with("langfuse-sdk")
                && is_new(&source.scope.version)
                && source.resource.text("telemetry.sdk.language") == Some("python")
        }
    }
}

/// Major and minor of a version.
pub(crate) fn version(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.trim().trim_start_matches('v').split('.');
    let major = parts.next()?.parse().ok()?;
    let digits = |part: &str| -> u64 {
        let end = part.find(|c: char| !c.is_ascii_digit());
        part[..end.unwrap_or(part.len())].parse().unwrap_or(0)
    };
    Some((major, parts.next().map_or(0, digits)))
}
