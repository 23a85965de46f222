//! The item of one call, built from a target.

use serde_json::{Map, Value, json};

use super::thread::{Conversation, messages, value_of};
use super::{Budget, Exceeded, JsonPath, Part, Selector, Source, Which, extract, open};
use crate::evaluation::Mapping;
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

/// Why a mapping makes no item of a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoItem {
    /// A mapped part that the target does not have.
    #[error("`{}` is mapped to {}, which the target does not have", .0.variable, shown(.0))]
    Missing(Mapping),
    /// More than an item may take.
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
        exceeded: Exceeded,
    },
}

/// Source and path, for people.
fn shown(mapping: &Mapping) -> String {
    match &mapping.json_path {
        Some(path) => format!("`{path}` of `{}`", mapping.source),
        None => format!("`{}`", mapping.source),
    }
}

/// A checked mapping.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// `None`: the parts as they are stored.
    entries: Option<Vec<(String, Source, Option<JsonPath>)>>,
    /// The same as they were written.
    written: Vec<Mapping>,
}

impl Plan {
    /// Hands over input, output, expected output and metadata as they are stored.
    #[must_use]
    pub const fn identity() -> Self {
        Self { entries: None, written: Vec::new() }
    }

    pub(super) fn mapped(
        entries: Vec<(String, Source, Option<JsonPath>)>,
        written: &[Mapping],
    ) -> Self {
        Self { entries: Some(entries), written: written.to_vec() }
    }

    /// Whether all observations of a target trace are needed, not only its root.
    #[must_use]
    pub fn reads_observations(&self) -> bool {
        self.entries
            .iter()
            .flatten()
            .any(|(_, source, _)| matches!(source, Source::Thread { .. } | Source::Chosen(..)))
    }

    /// Whether content is parsed: it is not where parts are handed over as they are stored.
    #[must_use]
    pub const fn parses(&self) -> bool {
        self.entries.is_some()
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
    ///
    /// # Errors
    /// [`NoItem::TooLarge`].
    pub fn missing(&self, subject: &Subject<'_>, needs: ItemParts) -> Result<Vec<String>, NoItem> {
        let mut missing = Vec::new();
        self.each(subject, needs, |variable, value| {
            if value.is_none() {
                missing.push(variable.to_owned());
            }
            Ok(())
        })?;
        Ok(missing)
    }

    /// Hands the value of each variable that the evaluator needs to `take`; none where the target lacks it.
    fn each(
        &self,
        subject: &Subject<'_>,
        needs: ItemParts,
        mut take: impl FnMut(&str, Option<Value>) -> Result<(), NoItem>,
    ) -> Result<(), NoItem> {
        let entries = self.entries.iter().flatten();
        let needed = entries.filter(|(variable, ..)| is_needed(variable, needs));
        // Sources are read once each, however many variables are mapped to one.
        let mut sources: Vec<(&Source, Option<Value>)> = Vec::new();
        let mut budget = Budget::default();
        for (variable, source, path) in needed {
            let too_large = |exceeded| NoItem::TooLarge {
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

    /// The entry of a variable as it was written.
    fn written_of(&self, variable: &str) -> Option<&Mapping> {
        let mut written = self.written.iter();
        written.find(|entry| entry.variable == variable)
    }

    /// Builds the item: only the parts that the evaluator needs.
    ///
    /// # Errors
    /// The first mapped part that is absent, unless `absent_is_empty` leaves it out; or the limit that is exceeded.
    pub fn item(
        &self,
        subject: &Subject<'_>,
        needs: ItemParts,
        absent_is_empty: bool,
    ) -> Result<Item, NoItem> {
        if self.entries.is_none() {
            return Ok(subject.stored_parts(needs));
        }
        let mut item = Item::default();
        let mut metadata = None;
        let mut variables = Map::new();
        self.each(subject, needs, |variable, value| {
            let Some(value) = value else {
                return match self.written_of(variable).filter(|_| !absent_is_empty) {
                    Some(written) => Err(NoItem::Missing(written.clone())),
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

    /// Metadata as it is stored, and under names of ours what has no part of its own in an item.
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

    /// The value of a source, JSON text in it parsed.
    fn opened(&self, source: &Source, budget: &mut Budget) -> Result<Option<Value>, Exceeded> {
        let value = self.value(source, budget)?;
        value.map(|value| open(value, budget)).transpose()
    }

    fn value(&self, source: &Source, budget: &mut Budget) -> Result<Option<Value>, Exceeded> {
        let payload = match source {
            Source::ExpectedOutput => self.expected(),
            Source::TraceInput => self.trace.and_then(|trace| trace.input.as_ref()),
            Source::TraceOutput => self.trace.and_then(|trace| trace.output.as_ref()),
            Source::Own(part) => {
                let own = self.observation;
                return own.map_or(Ok(None), |own| part_of(own, *part, budget));
            }
            Source::Chosen(selector, part) => {
                return chosen(self.observations, selector, *part, budget);
            }
            Source::Thread { without_system } => {
                return thread(self.observations, *without_system, budget);
            }
            Source::SessionThread { without_system } => {
                let said = self.session.map(|(_, said)| said.value(*without_system));
                return Ok(said.flatten());
            }
            Source::ExperimentItemMetadata => {
                let metadata = self.item_metadata();
                metadata.map_or(Ok(()), |metadata| budget.read(metadata))?;
                return Ok(metadata.cloned());
            }
            Source::TraceMetadata => {
                let metadata = self.trace.map(|trace| &trace.metadata);
                return members(metadata, budget);
            }
            Source::SessionMetadata => {
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
    budget: &mut Budget,
) -> Result<Option<Value>, Exceeded> {
    let Some(members) = members.filter(|members| !members.is_empty()) else {
        return Ok(None);
    };
    members.values().try_for_each(|value| budget.read(value))?;
    Ok(Some(Value::Object(members.clone())))
}

fn part_of(
    observation: &Observation,
    part: Part,
    budget: &mut Budget,
) -> Result<Option<Value>, Exceeded> {
    let content = &observation.content;
    let payload = match part {
        Part::Input => content.input.as_ref(),
        Part::Output => content.output.as_ref(),
        Part::Metadata => return members(Some(&content.metadata), budget),
        Part::ToolCalls => {
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
    selector: &Selector,
    part: Part,
    budget: &mut Budget,
) -> Result<Option<Value>, Exceeded> {
    // The record that describes the trace as a whole is not an observation that a mapping can choose.
    let mut fitting = observations
        .iter()
        .filter(|observation| !observation.is_trace_record() && selector.fits(observation));
    let one = match selector.which {
        Which::First => fitting.next(),
        Which::Last => fitting.next_back(),
        Which::Nth(k) => fitting.nth(k - 1),
        Which::All => {
            let mut values = Vec::new();
            for each in fitting {
                values.extend(part_of(each, part, budget)?);
            }
            return Ok((!values.is_empty()).then_some(Value::Array(values)));
        }
    };
    one.map_or(Ok(None), |one| part_of(one, part, budget))
}

/// The last generation's input messages and its output.
fn thread(
    observations: &[Observation],
    without_system: bool,
    budget: &mut Budget,
) -> Result<Option<Value>, Exceeded> {
    let mut generations = observations.iter();
    let last = generations.rfind(|each| each.kind == ObservationKind::Generation);
    let messages = last.map_or(Ok(Vec::new()), |last| messages(last, budget))?;
    Ok(value_of(messages, without_system))
}
