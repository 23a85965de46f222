//! Sources of mapped values.

use crate::evaluation::TargetKind;
use crate::observation::{Observation, ObservationKind};

/// A source of a mapping entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingSource {
    /// A part of the target observation, or of the root observation of a target trace.
    Own(SourcePart),
    /// Expected output of the experiment item.
    ExpectedOutput,
    /// Metadata of the experiment item.
    ExperimentItemMetadata,
    /// `trace.input`
    TraceInput,
    /// `trace.output`
    TraceOutput,
    /// `trace.metadata`
    TraceMetadata,
    /// `trace.thread`: the conversation, including system messages.
    Thread {
        /// System messages are left out.
        without_system: bool,
    },
    /// `session.thread`: the conversation of all traces of the session, including system messages.
    SessionThread {
        /// System messages are left out.
        without_system: bool,
    },
    /// `session.metadata`: the merged metadata of its traces.
    SessionMetadata,
    /// A part of chosen observations of the trace.
    Chosen(ObservationSelector, SourcePart),
}

/// A part of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourcePart {
    /// `input`
    Input,
    /// `output`
    Output,
    /// `metadata`
    Metadata,
    /// `tool_calls`
    ToolCalls,
}

impl SourcePart {
    fn parse(raw: &str) -> Option<Self> {
        match raw {
            "input" => Some(Self::Input),
            "output" => Some(Self::Output),
            "metadata" => Some(Self::Metadata),
            "tool_calls" => Some(Self::ToolCalls),
            _ => None,
        }
    }
}

/// Selects observations of a trace, ordered by start time, then id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservationSelector {
    /// Only those with this name.
    pub name: Option<String>,
    /// Only those of this kind.
    pub kind: Option<ObservationKind>,
    /// Selects one of several matches.
    pub index: SelectorIndex,
}

/// Which of the matching observations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectorIndex {
    /// `first`
    First,
    /// `last`
    #[default]
    Last,
    /// `all`: an array.
    All,
    /// `nth=K`, counted from 1.
    Nth(usize),
}

impl MappingSource {
    /// Parses a source for a kind of target. The error is a human-readable message.
    pub(super) fn parse(raw: &str, target: TargetKind) -> Result<Self, String> {
        if target == TargetKind::Run {
            return Err(format!(
                "a rule of runs has no mapping: its evaluators get the results of the run; got `{raw}`"
            ));
        }
        if target == TargetKind::Session {
            return match raw {
                "session.thread" => Ok(Self::SessionThread { without_system: false }),
                "session.thread_without_system" => Ok(Self::SessionThread { without_system: true }),
                "session.metadata" => Ok(Self::SessionMetadata),
                _ => Err(refused(raw, target)),
            };
        }
        if let Some(part) = SourcePart::parse(raw) {
            return Ok(Self::Own(part));
        }
        match raw {
            "expected_output" => return Ok(Self::ExpectedOutput),
            "experiment_item_metadata" => return Ok(Self::ExperimentItemMetadata),
            _ => {}
        }
        if target == TargetKind::Trace {
            match raw {
                "trace.input" => return Ok(Self::TraceInput),
                "trace.output" => return Ok(Self::TraceOutput),
                "trace.metadata" => return Ok(Self::TraceMetadata),
                "trace.thread" => {
                    return Ok(Self::Thread { without_system: false });
                }
                "trace.thread_without_system" => {
                    return Ok(Self::Thread { without_system: true });
                }
                _ => {}
            }
            if let Some(rest) = raw.strip_prefix("observation:") {
                return Self::parse_chosen(rest);
            }
        }
        Err(refused(raw, target))
    }

    fn parse_chosen(raw: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "source must have the form \
                 observation:name=NAME,type=TYPE,first|last|all|nth=K.PART with PART one of \
                 input, output, metadata, tool_calls; got `observation:{raw}`"
            )
        };
        let (selector, part) = raw.rsplit_once('.').ok_or_else(bad)?;
        let part = SourcePart::parse(part).ok_or_else(bad)?;
        Ok(Self::Chosen(ObservationSelector::parse(selector).ok_or_else(bad)?, part))
    }
}

/// The message for an invalid source.
fn refused(raw: &str, target: TargetKind) -> String {
    let allowed = match target {
        TargetKind::Observation | TargetKind::Experiment => {
            "input, output, metadata, tool_calls, expected_output, experiment_item_metadata"
        }
        TargetKind::Trace => {
            "input, output, metadata, tool_calls, expected_output, experiment_item_metadata, \
             trace.input, trace.output, trace.metadata, trace.thread, \
             trace.thread_without_system, observation:<selector>.<part>"
        }
        TargetKind::Session => "session.thread, session.thread_without_system, session.metadata",
        TargetKind::Run => "none",
    };
    format!("source of target {target} must be one of {allowed}; got `{raw}`")
}

impl ObservationSelector {
    /// Parses from the right, because a name may contain commas.
    fn parse(raw: &str) -> Option<Self> {
        let mut selector = Self::default();
        let mut rest = raw;
        let last = rest.rsplit(',').next().unwrap_or(rest);
        let index = match last {
            "first" => Some(SelectorIndex::First),
            "last" => Some(SelectorIndex::Last),
            "all" => Some(SelectorIndex::All),
            _ => match last.strip_prefix("nth=") {
                Some(k) => Some(SelectorIndex::Nth(k.parse().ok().filter(|k| 0 < *k)?)),
                None => None,
            },
        };
        if let Some(index) = index {
            selector.index = index;
            rest = rest[..rest.len() - last.len()].strip_suffix(',')?;
        }
        let last = rest.rsplit(',').next().unwrap_or(rest);
        if let Some(kind) = last.strip_prefix("type=") {
            selector.kind = Some(kind.parse().ok()?);
            rest = &rest[..rest.len() - last.len()];
            rest = rest.strip_suffix(',').unwrap_or(rest);
        }
        if let Some(name) = rest.strip_prefix("name=") {
            selector.name = Some(name.to_owned());
            rest = "";
        }
        let says_something = selector.name.is_some() || selector.kind.is_some();
        (rest.is_empty() && says_something).then_some(selector)
    }

    pub(super) fn fits(&self, observation: &Observation) -> bool {
        self.name.as_ref().is_none_or(|name| *name == observation.name)
            && self.kind.is_none_or(|kind| kind == observation.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_from_the_right() {
        let read = |raw| match MappingSource::parse(raw, TargetKind::Trace) {
            Ok(MappingSource::Chosen(selector, part)) => Some((selector, part)),
            _ => None,
        };
        let (selector, part) = read("observation:name=a, b.c,type=TOOL,nth=2.output").unwrap();
        assert_eq!(selector.name.as_deref(), Some("a, b.c"));
        assert_eq!(selector.kind, Some(ObservationKind::Tool));
        assert_eq!((selector.index, part), (SelectorIndex::Nth(2), SourcePart::Output));
        let (selector, _) = read("observation:type=generation.input").unwrap();
        assert_eq!((selector.name, selector.index), (None, SelectorIndex::Last));
        for bad in
            ["observation:last.input", "observation:name=x", "observation:name=x,nth=0.input"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
