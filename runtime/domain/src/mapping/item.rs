//! The item of one call, built from a target.

use serde_json::{Map, Value, json};

use super::thread::{Conversation, messages, value_of};
use super::{JsonPath, Part, Selector, Source, Which, extract, open};
use crate::observation::{Observation, ObservationKind};
use crate::payload::Payload;
use crate::plugin::{Item, ItemParts, TraceRef};
use crate::session::Session;
use crate::trace::Trace;

/// The member of `item.metadata` that holds variables which are no part of an item.
pub const VARIABLES: &str = "perpend.vars";
/// The member of `item.metadata` that holds the tool calls of the observation.
const TOOL_CALLS: &str = "perpend.tool_calls";
/// The member of `item.metadata` that holds the metadata of the experiment's item.
const ITEM_METADATA: &str = "perpend.item_metadata";

/// What an item is built from.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The target observation, or the root observation of the target trace.
    pub observation: Option<&'a Observation>,
    /// The target trace, its content completed.
    pub trace: Option<&'a Trace>,
    /// Observations of the target trace with content, by start time, then id; empty when
    /// [`Plan::reads_observations`] is false.
    pub observations: &'a [Observation],
    /// The target session, and what was said in it; empty when [`Plan::reads_conversation`] is false.
    pub session: Option<(&'a Session, &'a Conversation)>,
}

/// A mapped part that the target does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{variable}` is mapped to a part that the target does not have")]
pub struct MissingPart {
    /// The variable.
    pub variable: String,
}

/// A checked mapping.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// `None`: the parts as they are stored.
    entries: Option<Vec<(String, Source, Option<JsonPath>)>>,
}

impl Plan {
    /// Hands over input, output, expected output and metadata as they are stored.
    #[must_use]
    pub const fn identity() -> Self {
        Self { entries: None }
    }

    pub(super) const fn mapped(entries: Vec<(String, Source, Option<JsonPath>)>) -> Self {
        Self {
            entries: Some(entries),
        }
    }

    /// Whether all observations of a target trace are needed, not only its root.
    #[must_use]
    pub fn reads_observations(&self) -> bool {
        self.entries
            .iter()
            .flatten()
            .any(|(_, source, _)| matches!(source, Source::Thread { .. } | Source::Chosen(..)))
    }

    /// Whether what was said in a target session is needed.
    #[must_use]
    pub fn reads_conversation(&self) -> bool {
        let reads =
            |(_, source, _): &(String, Source, _)| matches!(source, Source::SessionThread { .. });
        let entries = self.entries.as_ref();
        entries.is_none_or(|entries| entries.iter().any(reads))
    }

    /// Whether the metadata of a target session are needed.
    #[must_use]
    pub fn reads_session_metadata(&self) -> bool {
        let entries = self.entries.as_ref();
        entries.is_none_or(|entries| {
            let mut sources = entries.iter().map(|(_, source, _)| source);
            sources.any(|source| *source == Source::SessionMetadata)
        })
    }

    /// The variables that are mapped to parts which the target lacks, of those that the evaluator needs.
    #[must_use]
    pub fn missing(&self, subject: &Subject<'_>, needs: ItemParts) -> Vec<String> {
        let entries = self.entries.iter().flatten();
        let missing = entries.filter(|(variable, source, path)| {
            is_needed(variable, needs) && subject.mapped(source, path.as_ref()).is_none()
        });
        missing.map(|(variable, ..)| variable.clone()).collect()
    }

    /// Builds the item: only the parts that the evaluator needs.
    ///
    /// # Errors
    /// The first mapped part that is absent, unless `absent_is_empty` leaves it out.
    pub fn item(
        &self,
        subject: &Subject<'_>,
        needs: ItemParts,
        absent_is_empty: bool,
    ) -> Result<Item, MissingPart> {
        let Some(entries) = &self.entries else {
            return Ok(subject.stored_parts(needs));
        };
        let mut item = Item::default();
        let mut metadata = None;
        let mut variables = Map::new();
        for (variable, source, path) in entries {
            if !is_needed(variable, needs) {
                continue;
            }
            let Some(value) = subject.mapped(source, path.as_ref()) else {
                if absent_is_empty {
                    continue;
                }
                let variable = variable.clone();
                return Err(MissingPart { variable });
            };
            match variable.as_str() {
                "input" => item.input = Some(Payload::from_value(value)),
                "output" => item.output = Some(Payload::from_value(value)),
                "expected_output" => item.expected_output = Some(Payload::from_value(value)),
                "metadata" => metadata = Some(value),
                _ => {
                    variables.insert(variable.clone(), value);
                }
            }
        }
        item.metadata = metadata_text(metadata, variables);
        Ok(subject.named(item, needs))
    }
}

/// Whether an evaluator with these needs is given the variable.
fn is_needed(variable: &str, needs: ItemParts) -> bool {
    match variable {
        "input" => needs.input,
        "output" => needs.output,
        "expected_output" => needs.expected_output,
        _ => needs.metadata,
    }
}

/// One object as text: what is mapped to `metadata`, and the further variables beside it.
pub(super) fn metadata_text(
    metadata: Option<Value>,
    variables: Map<String, Value>,
) -> Option<String> {
    let mut members = match metadata {
        Some(Value::Object(members)) => members,
        // The contract wants an object.
        Some(other) => Map::from_iter([("value".to_owned(), other)]),
        None if variables.is_empty() => return None,
        None => Map::new(),
    };
    if !variables.is_empty() {
        members.insert(VARIABLES.to_owned(), Value::Object(variables));
    }
    Some(Value::Object(members).to_string())
}

impl Subject<'_> {
    /// Fills in what an item has whatever the mapping.
    fn named(&self, mut item: Item, needs: ItemParts) -> Item {
        if let Some((session, _)) = self.session {
            let id = session.id.as_str();
            item.id = id.to_owned();
            item.session = needs.trace.then(|| id.to_owned());
            return item;
        }
        let (trace_id, observation_id) = match (self.trace, self.observation) {
            (Some(trace), _) => (trace.id.as_str(), None),
            (None, Some(own)) => (own.trace_id.as_str(), Some(own.id.as_str())),
            (None, None) => return item,
        };
        item.id = observation_id.unwrap_or(trace_id).to_owned();
        item.trace = needs.trace.then(|| TraceRef {
            trace_id: trace_id.to_owned(),
            observation_id: observation_id.map(str::to_owned),
        });
        item
    }

    fn stored_parts(&self, needs: ItemParts) -> Item {
        if let Some((session, conversation)) = self.session {
            let said = conversation.value(false).filter(|_| needs.output);
            let metadata = Some(&session.metadata).filter(|_| needs.metadata);
            let item = Item {
                output: said.map(Payload::from_value),
                metadata: metadata.and_then(|members| self.stored_metadata(members)),
                ..Item::default()
            };
            return self.named(item, needs);
        }
        let content = self.observation.map(|own| &own.content);
        let (input, output, metadata) = match self.trace {
            Some(trace) => (
                trace.input.as_ref(),
                trace.output.as_ref(),
                Some(&trace.metadata),
            ),
            None => (
                content.and_then(|content| content.input.as_ref()),
                content.and_then(|content| content.output.as_ref()),
                content.map(|content| &content.metadata),
            ),
        };
        let item = Item {
            input: input.filter(|_| needs.input).cloned(),
            output: output.filter(|_| needs.output).cloned(),
            expected_output: self.expected().filter(|_| needs.expected_output).cloned(),
            metadata: metadata
                .filter(|_| needs.metadata)
                .and_then(|members| self.stored_metadata(members)),
            ..Item::default()
        };
        self.named(item, needs)
    }

    /// Metadata as it is stored, and under names of ours what has no part of its own in an item.
    fn stored_metadata(&self, members: &Map<String, Value>) -> Option<String> {
        let calls = self
            .observation
            .and_then(|own| part_of(own, Part::ToolCalls));
        let item_metadata = self.value(&Source::ExperimentItemMetadata);
        if calls.is_none() && item_metadata.is_none() {
            return (!members.is_empty()).then(|| serde_json::to_string(members).ok())?;
        }
        let mut members = members.clone();
        members.extend(calls.map(|calls| (TOOL_CALLS.to_owned(), calls)));
        members.extend(item_metadata.map(|metadata| (ITEM_METADATA.to_owned(), metadata)));
        Some(Value::Object(members).to_string())
    }

    fn expected(&self) -> Option<&Payload> {
        self.observation?
            .experiment
            .as_ref()?
            .item_expected_output
            .as_ref()
    }

    fn mapped(&self, source: &Source, path: Option<&JsonPath>) -> Option<Value> {
        self.value(source)
            .and_then(|value| extract(open(value), path))
    }

    fn value(&self, source: &Source) -> Option<Value> {
        match source {
            Source::Own(part) => self.observation.and_then(|own| part_of(own, *part)),
            Source::ExpectedOutput => self.expected().map(Payload::to_value),
            Source::ExperimentItemMetadata => {
                self.observation?.experiment.as_ref()?.item_metadata.clone()
            }
            Source::TraceInput => self.trace?.input.as_ref().map(Payload::to_value),
            Source::TraceOutput => self.trace?.output.as_ref().map(Payload::to_value),
            Source::TraceMetadata => {
                let members = &self.trace?.metadata;
                (!members.is_empty()).then(|| Value::Object(members.clone()))
            }
            Source::Thread { without_system } => thread(self.observations, *without_system),
            Source::SessionThread { without_system } => self.session?.1.value(*without_system),
            Source::SessionMetadata => {
                let members = &self.session?.0.metadata;
                (!members.is_empty()).then(|| Value::Object(members.clone()))
            }
            Source::Chosen(selector, part) => chosen(self.observations, selector, *part),
        }
    }
}

fn part_of(observation: &Observation, part: Part) -> Option<Value> {
    let content = &observation.content;
    match part {
        Part::Input => content.input.as_ref().map(Payload::to_value),
        Part::Output => content.output.as_ref().map(Payload::to_value),
        Part::Metadata if content.metadata.is_empty() => None,
        Part::Metadata => Some(Value::Object(content.metadata.clone())),
        Part::ToolCalls if content.tool_calls.is_empty() => None,
        Part::ToolCalls => {
            let calls = content.tool_calls.iter().enumerate().map(|(index, call)| {
                json!({
                    "id": call.id,
                    "name": call.name,
                    "arguments": call.arguments,
                    "type": "function",
                    "index": index,
                })
            });
            Some(calls.collect())
        }
    }
}

fn chosen(observations: &[Observation], selector: &Selector, part: Part) -> Option<Value> {
    // The record that describes the trace as a whole is not an observation that a mapping can choose.
    let mut fitting = observations
        .iter()
        .filter(|observation| !observation.is_trace_record() && selector.fits(observation));
    let one = match selector.which {
        Which::First => fitting.next(),
        Which::Last => fitting.next_back(),
        Which::Nth(k) => fitting.nth(k - 1),
        Which::All => {
            let values: Vec<Value> = fitting.filter_map(|each| part_of(each, part)).collect();
            return (!values.is_empty()).then_some(Value::Array(values));
        }
    };
    part_of(one?, part)
}

/// The last generation's input messages and its output.
fn thread(observations: &[Observation], without_system: bool) -> Option<Value> {
    let mut generations = observations.iter();
    let last = generations.rfind(|each| each.kind == ObservationKind::Generation)?;
    value_of(messages(last), without_system)
}
