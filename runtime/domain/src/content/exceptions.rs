//! The exceptions of an observation: events named `exception` in its metadata, as OpenTelemetry records them.

use serde_json::{Map, Value};

use crate::content::members::text;

/// An exception; a text that was not recorded is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception<'m> {
    /// The position of its event among those of the observation.
    pub place: usize,
    /// `exception.type`.
    pub kind: &'m str,
    /// `exception.message`.
    pub message: &'m str,
    /// `exception.stacktrace`.
    pub stack: &'m str,
}

/// The exceptions in the metadata of an observation, in the order in which they were recorded.
#[must_use]
pub fn exceptions(metadata: &Map<String, Value>) -> Vec<Exception<'_>> {
    let events = metadata.get("events").and_then(Value::as_array);
    let events = events.into_iter().flatten().enumerate();
    let found = events.filter_map(|(place, event)| {
        let event = event.as_object()?;
        let attributes = event.get("attributes")?.as_object()?;
        let exception = Exception {
            place,
            kind: text(attributes, "exception.type"),
            message: text(attributes, "exception.message"),
            stack: text(attributes, "exception.stacktrace"),
        };
        let has_text = [exception.kind, exception.message, exception.stack]
            .iter()
            .any(|text| !text.is_empty());
        (text(event, "name") == "exception" && has_text).then_some(exception)
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_named_exception_with_a_text_are_exceptions() {
        let metadata = json!({ "events": [
            { "name": "retried", "attributes": { "exception.type": "E" } },
            { "name": "exception", "attributes": { "exception.type": "TimeoutError", "exception.message": "too late",
                "exception.stacktrace": "at a\nat b" } },
            { "name": "exception", "attributes": { "n": 1 } },
            { "name": "exception" },
            { "name": "exception", "attributes": { "exception.message": "again" } },
        ] });
        let found = exceptions(metadata.as_object().unwrap());
        let found: Vec<_> =
            found.iter().map(|one| (one.place, one.kind, one.message, one.stack)).collect();
        let first = (1, "TimeoutError", "too late", "at a\nat b");
        assert_eq!(found, [first, (4, "", "again", "")]);
        let other = json!({ "events": "none" });
        assert!(exceptions(other.as_object().unwrap()).is_empty());
    }
}
