//! The tools with which a model reads a trace, and the evidence: the list of their results.

use std::fmt::Write as _;

use perpend_plugin::model::{Tool, ToolCall};
use perpend_plugin::trace::{self, Part, TraceError};
use perpend_plugin::{EvalError, Json, TraceRef, host};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::fence;
use crate::outline::{line, one_line, part_name};
use crate::shape::object;

/// The maximum length of one result, in bytes.
const MAX_RESULT: usize = 32_000;
/// The bytes that `read` returns by default.
const DEFAULT_READ: u32 = 4_000;
/// The bytes of a fence and its headline, without an id.
const FRAME: usize = 160;
/// The maximum number of results of a search.
const MAX_HITS: u32 = 20;
/// The maximum number of observations of one outline.
const MAX_LINES: u32 = 500;
/// The maximum length of a text of the model in the metadata, in bytes.
const MAX_METADATA_TEXT: usize = 200;

const OUTLINE_SCHEMA: &str = r#"{"type":"object","properties":{"parent":{"type":"string","description":"Id of an observation: only what is below it is shown."},"after":{"type":"string","description":"Id of the last observation of an outline that was not complete: it goes on after it."}}}"#;
const READ_SCHEMA: &str = r#"{"type":"object","properties":{"observation":{"type":"string","description":"Id of the observation."},"part":{"type":"string","enum":["input","output","metadata"]},"from":{"type":"integer","minimum":0,"description":"The first byte; 0 unless said."},"bytes":{"type":"integer","minimum":1,"description":"How many bytes; 4000 unless said."}},"required":["observation","part"]}"#;
const SEARCH_SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string","description":"1 to 1000 bytes. It is looked for literally, in upper or lower case."}},"required":["text"]}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutlineArguments {
    parent: Option<String>,
    after: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    observation: String,
    part: PartArgument,
    #[serde(default)]
    from: u64,
    bytes: Option<u32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PartArgument {
    Input,
    Output,
    Metadata,
}

impl From<PartArgument> for Part {
    fn from(part: PartArgument) -> Self {
        match part {
            PartArgument::Input => Self::Input,
            PartArgument::Output => Self::Output,
            PartArgument::Metadata => Self::Metadata,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    text: String,
}

/// The definitions of the tools.
pub(crate) fn definitions() -> Vec<Tool> {
    let tool = |name: &str, description: &str, parameters: &str| Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: parameters.to_owned(),
    };
    vec![
        tool(
            "outline",
            "The tree of the trace, or what is below one observation of it: a line for each observation, with its id, kind, name, \
             whether it failed, how long it took, and how many bytes went in and came out.",
            OUTLINE_SCHEMA,
        ),
        tool(
            "read",
            "Text of the input, output or metadata of an observation, from a byte on.",
            READ_SCHEMA,
        ),
        tool(
            "search",
            "Where a text stands in the inputs, outputs and metadata of the trace: observation, part and byte, with what is \
             around it. The first 20 places.",
            SEARCH_SCHEMA,
        ),
    ]
}

/// The failure of a tool.
enum ToolError {
    /// The call is invalid: the message is for the model.
    Call(String),
    /// The trace cannot be read: the evaluation ends.
    Host(EvalError),
}

impl From<String> for ToolError {
    fn from(why: String) -> Self {
        Self::Call(why)
    }
}

impl From<TraceError> for ToolError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::NotFound(why) | TraceError::TooLarge(why) => Self::Call(why),
            other => Self::Host(other.into()),
        }
    }
}

/// The text for the model, and the metadata about it.
struct ToolOutput {
    /// The headline, which is not part of the digest.
    head: String,
    text: String,
    record: Vec<(&'static str, Json)>,
}

/// The tools over one trace.
pub(crate) struct Tools<'t> {
    pub(crate) trace: &'t TraceRef,
    /// The results shown to the model, with digests.
    pub(crate) evidence: Vec<Json>,
}

impl Tools<'_> {
    /// The fenced result of a call in at most `budget` bytes; the inner error is for the model.
    ///
    /// # Errors
    /// `upstream` when the trace cannot be read.
    pub(crate) fn run(
        &mut self,
        call: &ToolCall,
        budget: usize,
    ) -> Result<Result<String, String>, EvalError> {
        let budget = budget.min(MAX_RESULT);
        let outcome = match call.name.as_str() {
            "outline" => self.outline(call, budget),
            "read" => self.read(call, budget),
            "search" => self.search(call, budget),
            other => Err(ToolError::Call(format!(
                "there is no tool {:?}: use outline, read or search",
                one_line(other, MAX_METADATA_TEXT)
            ))),
        };
        let name = one_line(&call.name, MAX_METADATA_TEXT);
        match outcome {
            Ok(outcome) => {
                self.record(&name, outcome.record, &outcome.text);
                let shown = outcome.head + &outcome.text;
                Ok(Ok(fence::fenced(host::seed(), "trace", &shown)))
            }
            Err(ToolError::Call(why)) => {
                self.evidence.push(object([
                    ("tool", Json::from(name)),
                    ("error", Json::from(one_line(&why, MAX_METADATA_TEXT))),
                ]));
                Ok(Err(why))
            }
            Err(ToolError::Host(error)) => Err(error),
        }
    }

    /// Adds a result to the evidence.
    pub(crate) fn record(&mut self, tool: &str, record: Vec<(&'static str, Json)>, text: &str) {
        let digest = Sha256::digest(text);
        let digest: String = digest.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let members = [("tool", Json::from(tool))].into_iter().chain(record);
        self.evidence.push(object(members.chain([("sha256", Json::from(digest))])));
    }

    fn outline(&self, call: &ToolCall, budget: usize) -> Result<ToolOutput, ToolError> {
        let OutlineArguments { parent, after } = call.read()?;
        let budget = budget.saturating_sub(2 * FRAME);
        let (parent, after) = (parent.as_deref(), after.as_deref());
        let page = trace::outline_page(&self.trace.trace_id, parent, after, MAX_LINES)?;
        let judged = self.trace.observation_id.as_deref();
        let mut text = String::new();
        let mut last = None;
        let mut has_more = page.next_cursor.is_some();
        for entry in &page.entries {
            let line = line(entry, judged);
            if budget < text.len() + line.len() {
                has_more = true;
                break;
            }
            text.push_str(&line);
            last = Some(entry.id.as_str());
        }
        match last {
            None if has_more => return Err(budget_exhausted().into()),
            None => text.push_str("(nothing)\n"),
            Some(last) if has_more => {
                text.push_str(&format!("[there is more: outline after {last:?}]\n"));
            }
            Some(_) => {}
        }
        let record = [("parent", parent), ("after", after)].into_iter();
        let record = record
            .filter_map(|(name, id)| Some((name, Json::from(one_line(id?, MAX_METADATA_TEXT)))));
        Ok(ToolOutput { head: String::new(), text, record: record.collect() })
    }

    fn read(&self, call: &ToolCall, budget: usize) -> Result<ToolOutput, ToolError> {
        let arguments: ReadArguments = call.read()?;
        let (id, part) = (&arguments.observation, arguments.part.into());
        let requested = arguments.bytes.unwrap_or(DEFAULT_READ);
        if requested == 0 {
            return Err("bytes: at least 1 is needed".to_owned().into());
        }
        let budget = budget.saturating_sub(FRAME + id.len());
        let n_bytes = requested.min(u32::try_from(budget).unwrap_or(u32::MAX));
        if n_bytes == 0 {
            return Err(budget_exhausted().into());
        }
        let trace = &self.trace.trace_id;
        let slice = trace::read_range(trace, id, part, arguments.from, n_bytes)?;
        let part = part_name(part);
        let Some(slice) = slice else {
            return Err(format!("the observation has no {part}").into());
        };
        if slice.total <= arguments.from && 0 < arguments.from {
            return Err(format!("from: the {part} ends at byte {}", slice.total).into());
        }
        let end = slice.offset + slice.text.len() as u64;
        let head = format!(
            "{part} of {}, bytes {} to {end} of {}:\n",
            one_line(id, MAX_METADATA_TEXT),
            slice.offset,
            slice.total
        );
        Ok(ToolOutput {
            head,
            text: slice.text,
            record: vec![
                ("observation", Json::from(id.as_str())),
                ("part", Json::from(part)),
                ("from", number(slice.offset)),
                ("to", number(end)),
            ],
        })
    }

    fn search(&self, call: &ToolCall, budget: usize) -> Result<ToolOutput, ToolError> {
        let SearchArguments { text: requested } = call.read()?;
        if requested.is_empty() || 1_000 < requested.len() {
            return Err("text: 1 to 1000 bytes are needed".to_owned().into());
        }
        let budget = budget.saturating_sub(FRAME);
        let hits = trace::search(&self.trace.trace_id, &requested, MAX_HITS)?;
        let mut text = String::new();
        let mut n_shown: usize = 0;
        for hit in &hits {
            let line = format!(
                "{} of {}, at byte {}: {}\n",
                part_name(hit.part),
                one_line(&hit.observation_id, usize::MAX),
                hit.offset,
                one_line(&hit.excerpt, usize::MAX)
            );
            if budget < text.len() + line.len() {
                break;
            }
            text.push_str(&line);
            n_shown += 1;
        }
        if hits.is_empty() {
            text.push_str("(found nowhere)\n");
        } else if n_shown < hits.len() {
            text.push_str(&format!("[{} further places]\n", hits.len() - n_shown));
        }
        Ok(ToolOutput {
            head: String::new(),
            text,
            record: vec![
                ("text", Json::from(one_line(&requested, MAX_METADATA_TEXT))),
                ("places", Json::from(n_shown)),
            ],
        })
    }
}

fn budget_exhausted() -> String {
    "there is no room for more: give your answer".to_owned()
}

/// A count in the metadata of a score.
pub(crate) fn number(count: u64) -> Json {
    Json::from(usize::try_from(count).unwrap_or(usize::MAX))
}
