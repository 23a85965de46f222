//! Builds the item of one call from a target.

use serde_json::{Map, Value, json};

use super::thread::{Conversation, messages, value_of};
use super::{
    JsonPath, LimitExceeded, MappingBudget, MappingSource, ObservationSelector, SelectorIndex,
    SourcePart, extract, open,
};
use crate::evaluation::Mapping;
use crate::experiment::ExperimentRun;
use crate::observation::{Observation, ObservationKind};
use crate::payload::Payload;
use crate::plugin::{Item, ItemParts, TraceRef};
use crate::session::Session;
use crate::trace::Trace;

/// The member of `item.metadata` with the variables that are not a part of an item.
pub const VARIABLES: &str = "perpend.vars";
/// The member of `item.metadata` with the tool calls of the observation.
const TOOL_CALLS: &str = "perpend.tool_calls";
/// The member of `item.metadata` with the metadata of the experiment item.
const ITEM_METADATA: &str = "perpend.item_metadata";

/// The data that an item is built from.
#[derive(Clone, Copy, Debug)]
pub struct MappingSubject<'a> {
    /// The target observation, or the root observation of the target trace.
    pub observation: Option<&'a Observation>,
    /// The target trace, its content completed.
    pub trace: Option<&'a Trace>,
    /// Observations of the target trace with content, by start time, then id; empty when
    /// [`MappingPlan::reads_observations`] is false.
    pub observations: &'a [Observation],
    /// The target session with its conversation; empty if [`MappingPlan::reads_conversation`] is false.
    pub session: Option<(&'a Session, &'a Conversation)>,
    /// The target run with its results, which are the input of the item.
    pub run: Option<(&'a ExperimentRun, &'a Payload)>,
}

/// The reason why no item can be built from a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// A mapped part is absent.
    #[error("`{}` is mapped to {}, which the target does not have", .0.variable, shown(.0))]
    Missing(Mapping),
    /// A limit is exceeded.
    #[error(
        "the mapping of `{variable}`{} exceeds a limit: {exceeded}",
        path.as_ref().map(|path| format!(" (`{path}`)")).unwrap_or_default()
    )]
    TooLarge {
        /// The variable at which the limit was reached.
        variable: String,
        /// Its path.
        path: Option<String>,
        /// The limit.
        exceeded: LimitExceeded,
    },
}

/// Source and path for a message.
fn shown(mapping: &Mapping) -> String {
    match &mapping.json_path {
        Some(path) => format!("`{path}` of `{}`", mapping.source),
        None => format!("`{}`", mapping.source),
    }
}

/// A compiled mapping.
#[derive(Clone, Debug, Default)]
pub struct MappingPlan {
    /// `None`: the parts as stored.
    entries: Option<Vec<(String, MappingSource, Option<JsonPath>)>>,
    /// The entries as sent.
    written: Vec<Mapping>,
}

impl MappingPlan {
    /// Passes input, output, expected output and metadata as stored.
    #[must_use]
    pub const fn identity() -> Self {
        Self { entries: None, written: Vec::new() }
    }

    pub(super) fn mapped(
        entries: Vec<(String, MappingSource, Option<JsonPath>)>,
        written: &[Mapping],
    ) -> Self {
        Self { entries: Some(entries), written: written.to_vec() }
    }

    /// Whether the other one makes the same items of targets of one kind.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.parses() == other.parses() && self.written == other.written
    }

    /// Whether all observations of a target trace are needed rather than its root alone.
    #[must_use]
    pub fn reads_observations(&self) -> bool {
        self.entries.iter().flatten().any(|(_, source, _)| {
            matches!(source, MappingSource::Thread { .. } | MappingSource::Chosen(..))
        })
    }

    /// Whether content is parsed. It is not if the parts are passed as stored.
    #[must_use]
    pub const fn parses(&self) -> bool {
        self.entries.is_some()
    }

    /// Whether the conversation of a target session is needed.
    #[must_use]
    pub fn reads_conversation(&self) -> bool {
        let reads = |(_, source, _): &(String, MappingSource, _)| {
            matches!(source, MappingSource::SessionThread { .. })
        };
        let entries = self.entries.as_ref();
        entries.is_none_or(|entries| entries.iter().any(reads))
    }

    /// Whether the metadata of a target session is needed.
    #[must_use]
    pub fn reads_session_metadata(&self) -> bool {
        let entries = self.entries.as_ref();
        entries.is_none_or(|entries| {
            let mut sources = entries.iter().map(|(_, source, _)| source);
            sources.any(|source| *source == MappingSource::SessionMetadata)
        })
    }

    /// The variables needed by the evaluator whose mapped parts are absent.
    ///
    /// # Errors
    /// [`ItemError::TooLarge`].
    pub fn missing(
        &self,
        subject: &MappingSubject<'_>,
        needs: ItemParts,
    ) -> Result<Vec<String>, ItemError> {
        let mut missing = Vec::new();
        self.each(subject, needs, |variable, value| {
            if value.is_none() {
                missing.push(variable.to_owned());
            }
            Ok(())
        })?;
        Ok(missing)
    }

    /// Passes the value of each variable that the evaluator needs to `take`; `None` if the part is absent.
    fn each(
        &self,
        subject: &MappingSubject<'_>,
        needs: ItemParts,
        mut take: impl FnMut(&str, Option<Value>) -> Result<(), ItemError>,
    ) -> Result<(), ItemError> {
        let entries = self.entries.iter().flatten();
        let needed = entries.filter(|(variable, ..)| is_needed(variable, needs));
        // Each source is read once, even if several variables are mapped to it.
        let mut sources: Vec<(&MappingSource, Option<Value>)> = Vec::new();
        let mut budget = MappingBudget::default();
        for (variable, source, path) in needed {
            let too_large = |exceeded| ItemError::TooLarge {
                variable: variable.clone(),
                path: path.as_ref().map(|path| path.as_str().to_owned()),
                exceeded,
            };
            let at = match sources.iter().position(|(known, _)| *known == source) {
                Some(at) => at,
                None => {
                    let read = subject.opened(source, &mut budget);
                    sources.push((source, read.map_err(too_large)?));
                    sources.len() - 1
                }
            };
            let value = sources.get(at).and_then(|(_, value)| value.as_ref());
            let value = value.map(|value| extract(value, path.as_ref(), &mut budget));
            take(variable, value.transpose().map_err(too_large)?.flatten())?;
        }
        Ok(())
    }

    /// The entry of a variable as sent.
    fn written_of(&self, variable: &str) -> Option<&Mapping> {
        let mut written = self.written.iter();
        written.find(|entry| entry.variable == variable)
    }

    /// Builds the item with the parts that the evaluator needs.
    ///
    /// # Errors
    /// The first mapped part that is absent, unless `absent_is_empty`; or the exceeded limit.
    pub fn item(
        &self,
        subject: &MappingSubject<'_>,
        needs: ItemParts,
        absent_is_empty: bool,
    ) -> Result<Item, ItemError> {
        if self.entries.is_none() {
            return Ok(subject.stored_parts(needs));
        }
        let mut item = Item::default();
        let mut metadata = None;
        let mut variables = Map::new();
        self.each(subject, needs, |variable, value| {
            let Some(value) = value else {
                return match self.written_of(variable).filter(|_| !absent_is_empty) {
                    Some(written) => Err(ItemError::Missing(written.clone())),
                    None => Ok(()),
                };
            };
            match variable {
                "input" => item.input = Some(Payload::from_value(value)),
                "output" => item.output = Some(Payload::from_value(value)),
                "expected_output" => item.expected_output = Some(Payload::from_value(value)),
                "metadata" => metadata = Some(value),
                _ => {
                    variables.insert(variable.to_owned(), value);
                }
            }
            Ok(())
        })?;
        item.metadata = metadata_text(metadata, variables);
        Ok(subject.named(item, needs))
    }
}

/// Whether an evaluator with these needs receives the variable.
fn is_needed(variable: &str, needs: ItemParts) -> bool {
    match variable {
        "input" => needs.input,
        "output" => needs.output,
        "expected_output" => needs.expected_output,
        _ => needs.metadata,
    }
}

/// One object as text: the value mapped to `metadata` together with the further variables.
pub(super) fn metadata_text(
    metadata: Option<Value>,
    variables: Map<String, Value>,
) -> Option<String> {
    let mut members = match metadata {
        Some(Value::Object(members)) => members,
        // The contract requires an object.
        Some(other) => Map::from_iter([("value".to_owned(), other)]),
        None if variables.is_empty() => return None,
        None => Map::new(),
    };
    if !variables.is_empty() {
        members.insert(VARIABLES.to_owned(), Value::Object(variables));
    }
    Some(Value::Object(members).to_string())
}

impl MappingSubject<'_> {
    /// Adds the id and the references, which do not depend on the mapping.
    fn named(&self, mut item: Item, needs: ItemParts) -> Item {
        if let Some((run, _)) = self.run {
            item.id.clone_from(&run.id);
            item.run = needs.trace.then(|| run.id.clone());
            return item;
        }
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
        if let Some((run, results)) = self.run {
            let metadata = Some(&run.metadata).filter(|value| needs.metadata && !value.is_null());
            let item = Item {
                input: needs.input.then(|| results.clone()),
                metadata: metadata_text(metadata.cloned(), Map::new()),
                ..Item::default()
            };
            return self.named(item, needs);
        }
        if let Some((session, conversation)) = self.session {
            let messages = conversation.value(false).filter(|_| needs.output);
            let metadata = Some(&session.metadata).filter(|_| needs.metadata);
            let item = Item {
                output: messages.map(Payload::from_value),
                metadata: metadata.and_then(|members| self.stored_metadata(members)),
                ..Item::default()
            };
            return self.named(item, needs);
        }
        let content = self.observation.map(|own| &own.content);
        let (input, output, metadata) = match self.trace {
            Some(trace) => (trace.input.as_ref(), trace.output.as_ref(), Some(&trace.metadata)),
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

    /// Metadata as stored, with tool calls and item metadata under reserved names.
    fn stored_metadata(&self, members: &Map<String, Value>) -> Option<String> {
        let calls = self.observation.and_then(tool_calls);
        let item_metadata = self.item_metadata().cloned();
        if calls.is_none() && item_metadata.is_none() {
            return (!members.is_empty()).then(|| serde_json::to_string(members).ok())?;
        }
        let mut members = members.clone();
        members.extend(calls.map(|calls| (TOOL_CALLS.to_owned(), calls)));
        members.extend(item_metadata.map(|metadata| (ITEM_METADATA.to_owned(), metadata)));
        Some(Value::Object(members).to_string())
    }

    fn expected(&self) -> Option<&Payload> {
        self.observation?.experiment.as_ref()?.item_expected_output.as_ref()
    }

    /// The value of a source with JSON inside its strings parsed.
    fn opened(
        &self,
        source: &MappingSource,
        budget: &mut MappingBudget,
    ) -> Result<Option<Value>, LimitExceeded> {
        let value = self.value(source, budget)?;
        value.map(|value| open(value, budget)).transpose()
    }

    fn value(
        &self,
        source: &MappingSource,
        budget: &mut MappingBudget,
    ) -> Result<Option<Value>, LimitExceeded> {
        let payload = match source {
            MappingSource::ExpectedOutput => self.expected(),
            MappingSource::TraceInput => self.trace.and_then(|trace| trace.input.as_ref()),
            MappingSource::TraceOutput => self.trace.and_then(|trace| trace.output.as_ref()),
            MappingSource::Own(part) => {
                let own = self.observation;
                return own.map_or(Ok(None), |own| part_of(own, *part, budget));
            }
            MappingSource::Chosen(selector, part) => {
                return chosen(self.observations, selector, *part, budget);
            }
            MappingSource::Thread { without_system } => {
                return thread(self.observations, *without_system, budget);
            }
            MappingSource::SessionThread { without_system } => {
                let messages =
                    self.session.map(|(_, conversation)| conversation.value(*without_system));
                return Ok(messages.flatten());
            }
            MappingSource::ExperimentItemMetadata => {
                let metadata = self.item_metadata();
                metadata.map_or(Ok(()), |metadata| budget.read(metadata))?;
                return Ok(metadata.cloned());
            }
            MappingSource::TraceMetadata => {
                let metadata = self.trace.map(|trace| &trace.metadata);
                return members(metadata, budget);
            }
            MappingSource::SessionMetadata => {
                let metadata = self.session.map(|(session, _)| &session.metadata);
                return members(metadata, budget);
            }
        };
        payload.map_or(Ok(None), |payload| budget.payload(payload).map(Some))
    }

    fn item_metadata(&self) -> Option<&Value> {
        let link = self.observation?.experiment.as_ref()?;
        link.item_metadata.as_ref()
    }
}

fn members(
    members: Option<&Map<String, Value>>,
    budget: &mut MappingBudget,
) -> Result<Option<Value>, LimitExceeded> {
    let Some(members) = members.filter(|members| !members.is_empty()) else {
        return Ok(None);
    };
    members.values().try_for_each(|value| budget.read(value))?;
    Ok(Some(Value::Object(members.clone())))
}

fn part_of(
    observation: &Observation,
    part: SourcePart,
    budget: &mut MappingBudget,
) -> Result<Option<Value>, LimitExceeded> {
    let content = &observation.content;
    let payload = match part {
        SourcePart::Input => content.input.as_ref(),
        SourcePart::Output => content.output.as_ref(),
        SourcePart::Metadata => return members(Some(&content.metadata), budget),
        SourcePart::ToolCalls => {
            let calls = tool_calls(observation);
            calls.as_ref().map_or(Ok(()), |calls| budget.read(calls))?;
            return Ok(calls);
        }
    };
    payload.map_or(Ok(None), |payload| budget.payload(payload).map(Some))
}

fn tool_calls(observation: &Observation) -> Option<Value> {
    let calls = observation.content.tool_calls.iter().enumerate();
    let calls = calls.map(|(index, call)| {
        json!({
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "type": "function",
            "index": index,
        })
    });
    let calls: Vec<Value> = calls.collect();
    (!calls.is_empty()).then_some(Value::Array(calls))
}

fn chosen(
    observations: &[Observation],
    selector: &ObservationSelector,
    part: SourcePart,
    budget: &mut MappingBudget,
) -> Result<Option<Value>, LimitExceeded> {
    // A mapping cannot select the record of the trace.
    let mut fitting = observations
        .iter()
        .filter(|observation| !observation.is_trace_record() && selector.fits(observation));
    let one = match selector.index {
        SelectorIndex::First => fitting.next(),
        SelectorIndex::Last => fitting.next_back(),
        SelectorIndex::Nth(k) => fitting.nth(k - 1),
        SelectorIndex::All => {
            let mut values = Vec::new();
            for each in fitting {
                values.extend(part_of(each, part, budget)?);
            }
            return Ok((!values.is_empty()).then_some(Value::Array(values)));
        }
    };
    one.map_or(Ok(None), |one| part_of(one, part, budget))
}

/// The input messages and the output of the last generation.
fn thread(
    observations: &[Observation],
    without_system: bool,
    budget: &mut MappingBudget,
) -> Result<Option<Value>, LimitExceeded> {
    let mut generations = observations.iter();
    let last = generations.rfind(|each| each.kind == ObservationKind::Generation);
    let messages = last.map_or(Ok(Vec::new()), |last| messages(last, budget))?;
    Ok(value_of(messages, without_system))
}
