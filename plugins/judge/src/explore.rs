//! A model that looks into a trace with tools before it answers.

use perpend_plugin::model::{Completion, Message, Request, Role, ToolResult, complete};
use perpend_plugin::{EvalError, Json, TraceRef, host};

use crate::ask::SLOTS;
use crate::config::{Asking, Explore};
use crate::fence;
use crate::outline::{entries, outlined};
use crate::prepared::Prepared;
use crate::prompt::{add_instruction, add_system_rule, size};
use crate::shape::object;
use crate::tools::{self, Tools, number};

/// Bytes of what the model is told, and of the definitions of tools.
const SENTENCES: usize = 3_000;
/// With less room than this nothing more is looked at.
const LEAST_ROOM: usize = 2_000;
/// Tools that a model can ask for in one turn. What is more is not heard.
const MAX_AT_ONCE: usize = 32;
/// Bytes that are kept of what a model says while it explores.
const MAX_SAID: usize = 4_000;
/// Bytes of the arguments of a call. Longer ones cannot be read.
const MAX_ARGUMENTS: usize = 2_000;

/// Why a model does not explore any more.
#[derive(Clone, Copy)]
enum End {
    /// It has seen enough.
    Enough,
    Calls,
    Tokens,
    Room,
}

impl End {
    const fn name(self) -> &'static str {
        match self {
            Self::Enough => "enough",
            Self::Calls => "max_calls",
            Self::Tokens => "max_tokens",
            Self::Room => "max_input_tokens",
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::Enough => "",
            Self::Calls => "Tools were used as often as they can be. ",
            Self::Tokens | Self::Room => "There is no room for more. ",
        }
    }
}

struct Exploration<'e> {
    request: Request,
    tools: Tools<'e>,
    limits: Explore,
    /// Bytes for what the model says and what it is shown.
    room: usize,
    n_calls: u32,
    n_asked: usize,
    n_input: u64,
    n_output: u64,
}

/// Lets the model look into the trace. What it was shown stands in the messages, and as a list with digests in the details.
///
/// # Errors
/// `upstream` when the trace cannot be read or the model fails; `invalid-input` when there is no room for anything.
pub(crate) fn explored(
    asking: &Asking,
    trace: &TraceRef,
    mut prepared: Prepared,
    instruction: Option<&str>,
    limit: usize,
) -> Result<Prepared, EvalError> {
    let limits = asking.explore.unwrap_or_default();
    let instruction = instruction.unwrap_or_default();
    add_system_rule(&mut prepared.messages);
    // The instruction stands at the beginning, and once more before the answer.
    let used = size(&prepared.messages) + 2 * (instruction.len() + 2) + SENTENCES;
    let Some(room) = limit.checked_sub(used + LEAST_ROOM) else {
        return Err(asking.too_long(used + LEAST_ROOM, " where a model is to explore"));
    };
    let entries = entries(trace)?;
    let (outline, n_outlined) = outlined(&entries, trace.observation_id.as_deref(), room / 4);
    let mut tools = Tools { trace, evidence: Vec::new() };
    let record = [("observations", Json::from(entries.len())), ("shown", Json::from(n_outlined))];
    tools.note("outline", record.into(), &outline);
    let first = format!(
        "The item is too long to be given whole: what is above may be shortened. The outline of its trace follows, a line for each \
         observation. Look into the trace with the tools `outline`, `read` and `search` before you answer; they can be used {} \
         times together. When you have seen enough, reply with the word `ready` and nothing else: you are then asked for \
         your answer.\n\n{}",
        limits.max_calls,
        fence::fenced(host::seed(), "trace", &outline),
    );
    add_instruction(&mut prepared.messages, &first);
    if !instruction.is_empty() {
        let later = format!("This is what you will be asked then:\n\n{instruction}");
        add_instruction(&mut prepared.messages, &later);
    }
    let request = Request {
        tools: tools::all(),
        slot: SLOTS.first().map(|slot| slot.name.to_owned()),
        ..asking.request(std::mem::take(&mut prepared.messages), None)?
    };
    let mut exploration = Exploration {
        request,
        tools,
        limits,
        room: room.saturating_sub(outline.len()),
        n_calls: 0,
        n_asked: 0,
        n_input: 0,
        n_output: 0,
    };
    let end = exploration.run()?;
    let explored = exploration.recorded(end);
    prepared.messages = exploration.request.messages;
    prepared.tools = exploration.request.tools;
    let last = format!("{}Now give your answer, from what you have seen.", end.sentence());
    prepared.messages.push(Message::text(Role::User, last));
    Ok(prepared.with("explored", explored))
}

impl Exploration<'_> {
    fn run(&mut self) -> Result<End, EvalError> {
        loop {
            if let Some(end) = self.end() {
                return Ok(end);
            }
            let said = complete(&self.request)?;
            self.n_asked += 1;
            self.n_input = self.n_input.saturating_add(said.input_tokens);
            self.n_output = self.n_output.saturating_add(said.output_tokens);
            let mut said = heard(said, self.room / 2);
            self.spend(said.text.len());
            if said.tool_calls.is_empty() {
                if !said.text.is_empty() {
                    let text = Message::text(Role::Assistant, said.text);
                    self.request.messages.push(text);
                }
                return Ok(End::Enough);
            }
            let mut results = Vec::with_capacity(said.tool_calls.len());
            for call in &mut said.tool_calls {
                self.spend(call.name.len() + call.arguments.len());
                let outcome = match self.end() {
                    Some(end) => Err(format!("{}Give your answer.", end.sentence())),
                    None => {
                        self.n_calls += 1;
                        // As much remains for those that come after it.
                        self.tools.carry_out(call, self.room / 2)?
                    }
                };
                let result = call.result(outcome);
                self.spend(result.content.len());
                results.push(result);
                if !is_object(&call.arguments) {
                    // No provider takes back what is not an object.
                    "{}".clone_into(&mut call.arguments);
                }
            }
            self.answer(&said, results);
        }
    }

    fn answer(&mut self, said: &Completion, results: Vec<ToolResult>) {
        let request = std::mem::take(&mut self.request);
        self.request = request.results(said, results);
    }

    fn spend(&mut self, n_bytes: usize) {
        self.room = self.room.saturating_sub(n_bytes);
    }

    fn end(&self) -> Option<End> {
        if self.limits.max_calls <= self.n_calls {
            return Some(End::Calls);
        }
        let n_tokens = self.n_input.saturating_add(self.n_output);
        if self.limits.max_tokens.is_some_and(|limit| limit <= n_tokens) {
            return Some(End::Tokens);
        }
        (self.room < LEAST_ROOM).then_some(End::Room)
    }

    /// What the metadata of the score says.
    fn recorded(&mut self, end: End) -> Json {
        object([
            ("calls", number(self.n_calls.into())),
            ("model_calls", Json::from(self.n_asked)),
            ("input_tokens", number(self.n_input)),
            ("output_tokens", number(self.n_output)),
            ("ended", Json::from(end.name())),
            ("evidence", Json::Array(std::mem::take(&mut self.tools.evidence))),
        ])
    }
}

/// A reply as it is kept in the conversation.
fn heard(mut said: Completion, room: usize) -> Completion {
    cut(&mut said.text, MAX_SAID.min(room));
    said.tool_calls.truncate(MAX_AT_ONCE);
    for call in &mut said.tool_calls {
        cut(&mut call.arguments, MAX_ARGUMENTS);
    }
    said
}

fn cut(text: &mut String, n_bytes: usize) {
    text.truncate(text.floor_char_boundary(n_bytes));
}

fn is_object(arguments: &str) -> bool {
    matches!(Json::parse(arguments), Ok(Json::Object(_)))
}
