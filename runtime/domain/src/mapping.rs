//! Maps a target to the item for a plug-in (evaluation.md 1.2): sources, JSONPath and variables.
//!
//! Without a mapping the parts are passed as stored. A mapped part is parsed first, including JSON text inside strings,
//! because paths may select from it.
//!
//! Invariant: **bounded.** Mappings and targets are untrusted, so building an item ends when its
//! [`MappingBudget`] is used up.

mod budget;
mod extract;
mod item;
mod node_path;
mod source;
mod thread;
mod written;

pub use budget::{LimitExceeded, MappingBudget};
pub use extract::{MAX_OPENINGS, extract, open, opens, text};
pub use item::{ItemError, MappingPlan, MappingSubject, VARIABLES};
pub use node_path::{InvalidNodePath, NodePath, PathSegment};
pub use source::{MappingSource, ObservationSelector, SelectorIndex, SourcePart};
pub use thread::{Conversation, ConversationTooLong};
pub use written::ManualItem;

pub use crate::json_path::{InvalidPath, JsonPath};

use crate::evaluation::{Mapping, TargetKind};

/// An invalid entry of a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("mapping[{index}]: {message}")]
pub struct MappingError {
    /// Index of the entry, from 0.
    pub index: usize,
    /// Kind of the error.
    pub kind: MappingFault,
    /// The variable of the entry.
    pub variable: String,
    /// The invalid text: the source or the path.
    pub value: String,
    /// Human-readable.
    pub message: String,
}

/// Kinds of [`MappingError`], named by the codes of the compat API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingFault {
    /// `invalid_variable_mapping`
    Source,
    /// `duplicate_variable_mapping`
    Duplicate,
    /// `invalid_json_path`
    Path,
}

/// Most variables of a mapping.
const MAX_ENTRIES: usize = 100;

/// Checks a mapping for a kind of target.
///
/// # Errors
/// Every entry with a source that the target kind does not have, an invalid RFC 9535 path, or an empty or duplicate
/// variable.
pub fn compile(mapping: &[Mapping], target: TargetKind) -> Result<MappingPlan, Vec<MappingError>> {
    let mut entries = Vec::with_capacity(mapping.len());
    let mut errors = Vec::new();
    if MAX_ENTRIES < mapping.len() {
        return Err(vec![MappingError {
            index: MAX_ENTRIES,
            kind: MappingFault::Source,
            variable: String::new(),
            value: String::new(),
            message: format!("a mapping has at most {MAX_ENTRIES} entries, got {}", mapping.len()),
        }]);
    }
    for (index, entry) in mapping.iter().enumerate() {
        let fault = |kind, value: &str, message: String| MappingError {
            index,
            kind,
            variable: entry.variable.clone(),
            value: value.to_owned(),
            message,
        };
        if entry.variable.is_empty() {
            let message = "the variable name must not be empty".to_owned();
            errors.push(fault(MappingFault::Source, "", message));
        }
        if mapping[..index].iter().any(|other| other.variable == entry.variable) {
            let message = format!("`{}` is mapped more than once", entry.variable);
            errors.push(fault(MappingFault::Duplicate, &entry.variable, message));
        }
        let source = MappingSource::parse(&entry.source, target).inspect_err(|message| {
            errors.push(fault(MappingFault::Source, &entry.source, message.clone()));
        });
        let path = entry.json_path.as_deref().map(JsonPath::parse).transpose();
        let path = path.inspect_err(|error| {
            let raw = entry.json_path.as_deref().unwrap_or_default();
            errors.push(fault(MappingFault::Path, raw, error.to_string()));
        });
        if let (Ok(source), Ok(path)) = (source, path) {
            entries.push((entry.variable.clone(), source, path));
        }
    }
    if errors.is_empty() { Ok(MappingPlan::mapped(entries, mapping)) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload;

    fn entry(variable: &str, source: &str, json_path: Option<&str>) -> Mapping {
        Mapping {
            variable: variable.to_owned(),
            source: source.to_owned(),
            json_path: json_path.map(str::to_owned),
        }
    }

    #[test]
    fn every_fault_of_a_mapping_is_named() {
        let mapping = [
            entry("output", "outptu", None),
            entry("output", "output", Some("messages[0]")),
            entry("ok", "input", Some("$.a[-1]")),
            entry("t", "trace.input", None),
        ];
        let errors = compile(&mapping, TargetKind::Observation).unwrap_err();
        let faults: Vec<_> = errors.iter().map(|error| (error.index, error.kind)).collect();
        assert_eq!(
            faults,
            [
                (0, MappingFault::Source),
                (1, MappingFault::Duplicate),
                (1, MappingFault::Path),
                (3, MappingFault::Source)
            ]
        );
        assert!(compile(&mapping[3..], TargetKind::Trace).is_ok());
        let of_sessions = [entry("conversation", "session.thread", None)];
        assert!(compile(&of_sessions, TargetKind::Session).is_ok());
        assert!(compile(&of_sessions, TargetKind::Trace).is_err());
        assert!(compile(&mapping[2..3], TargetKind::Session).is_err());
    }

    fn item(mapping: &[Mapping], output: Payload) -> Result<crate::plugin::Item, ItemError> {
        let (trace, id) = ("t".parse().unwrap(), "o".parse().unwrap());
        let at = crate::time::Timestamp::from_micros(0);
        let kind = crate::observation::ObservationKind::Span;
        let mut own = crate::observation::Observation::ended(trace, id, kind, (at, at));
        own.content.output = Some(output);
        let subject = MappingSubject {
            observation: Some(&own),
            trace: None,
            observations: &[],
            session: None,
            run: None,
        };
        let needs = crate::plugin::ItemParts {
            output: true,
            metadata: true,
            ..crate::plugin::ItemParts::default()
        };
        let plan = compile(mapping, TargetKind::Observation).unwrap();
        plan.item(&subject, needs, false)
    }

    fn exceeded(mapping: &[Mapping], json: &str) -> LimitExceeded {
        match item(mapping, Payload::Json(json.to_owned())) {
            Err(ItemError::TooLarge { exceeded, .. }) => exceeded,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("an item was built"),
        }
    }

    #[test]
    fn a_mapping_that_takes_too_much_of_a_target_is_an_error_that_names_path_and_limit() {
        // A hundred bytes, of which the path selects millions of nodes.
        let deep = format!("{}{}", "[".repeat(55), "]".repeat(55));
        let steps = [entry("output", "output", Some("$..*..*..*..*..*..*"))];
        assert_eq!(exceeded(&steps, &deep), LimitExceeded::Steps);
        let error = item(&steps, Payload::Json(deep)).unwrap_err().to_string();
        assert!(error.contains("`output`") && error.contains("$..*..*"), "{error}");
        assert!(error.contains("4000000 steps"), "{error}");
        let many = format!("[{}]", vec!["{}"; 250_000].join(","));
        assert_eq!(exceeded(&[entry("x", "output", None)], &many), LimitExceeded::Read);
        // JSON in a text counts too.
        let in_text = format!("[{}]", vec!["{}"; 100_000].join(","));
        let in_text = serde_json::to_string(&vec![in_text; 3]).unwrap();
        assert_eq!(exceeded(&[entry("x", "output", None)], &in_text), LimitExceeded::Read);
        let text = serde_json::to_string(&"x".repeat(1 << 20)).unwrap();
        let variables: Vec<Mapping> =
            (0..40).map(|n| entry(&format!("v{n}"), "output", Some("$[0]"))).collect();
        assert_eq!(exceeded(&variables, &format!("[{text}]")), LimitExceeded::Bytes);
        let numbers = format!("[{}]", vec!["1"; 300_000].join(","));
        assert_eq!(exceeded(&variables, &format!("[{numbers}]")), LimitExceeded::Selected);
    }

    #[test]
    fn several_variables_of_one_source_read_it_once() {
        let numbers = format!("[{}]", vec!["1"; 600_000].join(","));
        let variables: Vec<Mapping> =
            (0..10).map(|n| entry(&format!("v{n}"), "output", Some("$[0]"))).collect();
        assert!(item(&variables, Payload::Json(numbers)).is_ok());
    }
}
