//! An exploration: a model reads a trace with tools before it answers.

use perpend_plugin::model::{Completion, Message, Request, Role, ToolResult, complete};
use perpend_plugin::{EvalError, Json, TraceRef, host};

use crate::config::{ExploreLimits, RequestConfig};
use crate::fence;
use crate::outline::{entries, render};
use crate::panel::SLOTS;
use crate::prepared::PreparedPrompt;
use crate::prompt::{add_instruction, add_system_rule, size};
use crate::shape::object;
use crate::tools::{self, Tools, number};

/// The bytes reserved for the instructions to the model and the definitions of the tools.
const OVERHEAD: usize = 3_000;
/// The number of remaining bytes below which the exploration ends.
const MIN_BUDGET: usize = 2_000;
/// The maximum number of tool calls in one reply. Further calls are ignored.
const MAX_CALLS_PER_REPLY: usize = 32;
/// The bytes of the text of a reply that are kept.
const MAX_REPLY: usize = 4_000;
/// The bytes of the arguments of a call that are kept. Longer arguments are cut and do not parse.
const MAX_ARGUMENTS: usize = 2_000;

/// The reason why an exploration ended.
#[derive(Clone, Copy)]
enum EndReason {
    /// The model called no further tool.
    Ready,
    MaxCalls,
    MaxTokens,
    MaxInputTokens,
}

impl EndReason {
    const fn name(self) -> &'static str {
        match self {
            Self::Ready => "enough",
            Self::MaxCalls => "max_calls",
            Self::MaxTokens => "max_tokens",
            Self::MaxInputTokens => "max_input_tokens",
        }
    }

    const fn sentence(self) -> &'static str {
        match self {
            Self::Ready => "",
            Self::MaxCalls => "Tools were used as often as they can be. ",
            Self::MaxTokens | Self::MaxInputTokens => "There is no room for more. ",
        }
    }
}

struct Exploration<'e> {
    request: Request,
    tools: Tools<'e>,
    limits: ExploreLimits,
    /// The bytes that remain for replies and results of tools.
    budget: usize,
    n_calls: u32,
    n_requests: usize,
    n_input_tokens: u64,
    n_output_tokens: u64,
}

/// Lets the model explore the trace. The results of tools are in the messages of the prompt, and a list of them with digests
/// is in its metadata.
///
/// # Errors
/// `upstream` when the trace cannot be read or the model fails; `invalid-input` when the prompt leaves no space for results.
pub(crate) fn explore(
    config: &RequestConfig,
    trace: &TraceRef,
    mut prepared: PreparedPrompt,
    instruction: Option<&str>,
    limit: usize,
) -> Result<PreparedPrompt, EvalError> {
    let limits = config.explore.unwrap_or_default();
    let instruction = instruction.unwrap_or_default();
    add_system_rule(&mut prepared.messages);
    // The instruction appears twice: here and before the answer.
    let used = size(&prepared.messages) + 2 * (instruction.len() + 2) + OVERHEAD;
    let Some(budget) = limit.checked_sub(used + MIN_BUDGET) else {
        return Err(
            config.too_long(used + MIN_BUDGET, " together with the space for an exploration")
        );
    };
    let entries = entries(trace)?;
    let (outline, n_outlined) = render(&entries, trace.observation_id.as_deref(), budget / 4);
    let mut tools = Tools { trace, evidence: Vec::new() };
    let members = [("observations", Json::from(entries.len())), ("shown", Json::from(n_outlined))];
    tools.record("outline", members.into(), &outline);
    let introduction = format!(
        "The item is too long to be given whole: what is above may be shortened. The outline of its trace follows, a line for each \
         observation. Look into the trace with the tools `outline`, `read` and `search` before you answer; they can be used {} \
         times together. When you have seen enough, reply with the word `ready` and nothing else: you are then asked for \
         your answer.\n\n{}",
        limits.max_calls,
        fence::fenced(host::seed(), "trace", &outline),
    );
    add_instruction(&mut prepared.messages, &introduction);
    if !instruction.is_empty() {
        let later = format!("This is what you will be asked then:\n\n{instruction}");
        add_instruction(&mut prepared.messages, &later);
    }
    let request = Request {
        tools: tools::definitions(),
        slot: SLOTS.first().map(|slot| slot.name.to_owned()),
        ..config.model_request(std::mem::take(&mut prepared.messages), None)?
    };
    let mut exploration = Exploration {
        request,
        tools,
        limits,
        budget: budget.saturating_sub(outline.len()),
        n_calls: 0,
        n_requests: 0,
        n_input_tokens: 0,
        n_output_tokens: 0,
    };
    let end = exploration.run()?;
    let metadata = exploration.metadata(end);
    prepared.messages = exploration.request.messages;
    prepared.tools = exploration.request.tools;
    let last = format!("{}Now give your answer, from what you have seen.", end.sentence());
    prepared.messages.push(Message::text(Role::User, last));
    Ok(prepared.with("explored", metadata))
}

impl Exploration<'_> {
    fn run(&mut self) -> Result<EndReason, EvalError> {
        loop {
            if let Some(end) = self.end() {
                return Ok(end);
            }
            let reply = complete(&self.request)?;
            self.n_requests += 1;
            self.n_input_tokens = self.n_input_tokens.saturating_add(reply.input_tokens);
            self.n_output_tokens = self.n_output_tokens.saturating_add(reply.output_tokens);
            let mut reply = shortened(reply, self.budget / 2);
            self.spend(reply.text.len());
            if reply.tool_calls.is_empty() {
                if !reply.text.is_empty() {
                    let text = Message::text(Role::Assistant, reply.text);
                    self.request.messages.push(text);
                }
                return Ok(EndReason::Ready);
            }
            let mut results = Vec::with_capacity(reply.tool_calls.len());
            for call in &mut reply.tool_calls {
                self.spend(call.name.len() + call.arguments.len());
                let outcome = match self.end() {
                    Some(end) => Err(format!("{}Give your answer.", end.sentence())),
                    None => {
                        self.n_calls += 1;
                        // Half of the budget remains for the following calls.
                        self.tools.run(call, self.budget / 2)?
                    }
                };
                let result = call.result(outcome);
                self.spend(result.content.len());
                results.push(result);
                if !is_object(&call.arguments) {
                    // Providers accept nothing but an object.
                    "{}".clone_into(&mut call.arguments);
                }
            }
            self.answer(&reply, results);
        }
    }

    fn answer(&mut self, reply: &Completion, results: Vec<ToolResult>) {
        let request = std::mem::take(&mut self.request);
        self.request = request.results(reply, results);
    }

    fn spend(&mut self, n_bytes: usize) {
        self.budget = self.budget.saturating_sub(n_bytes);
    }

    fn end(&self) -> Option<EndReason> {
        if self.limits.max_calls <= self.n_calls {
            return Some(EndReason::MaxCalls);
        }
        let n_tokens = self.n_input_tokens.saturating_add(self.n_output_tokens);
        if self.limits.max_tokens.is_some_and(|limit| limit <= n_tokens) {
            return Some(EndReason::MaxTokens);
        }
        (self.budget < MIN_BUDGET).then_some(EndReason::MaxInputTokens)
    }

    /// The metadata of the score about the exploration.
    fn metadata(&mut self, end: EndReason) -> Json {
        object([
            ("calls", number(self.n_calls.into())),
            ("model_calls", Json::from(self.n_requests)),
            ("input_tokens", number(self.n_input_tokens)),
            ("output_tokens", number(self.n_output_tokens)),
            ("ended", Json::from(end.name())),
            ("evidence", Json::Array(std::mem::take(&mut self.tools.evidence))),
        ])
    }
}

/// The reply, shortened for the conversation.
fn shortened(mut reply: Completion, budget: usize) -> Completion {
    cut(&mut reply.text, MAX_REPLY.min(budget));
    reply.tool_calls.truncate(MAX_CALLS_PER_REPLY);
    for call in &mut reply.tool_calls {
        cut(&mut call.arguments, MAX_ARGUMENTS);
    }
    reply
}

fn cut(text: &mut String, n_bytes: usize) {
    text.truncate(text.floor_char_boundary(n_bytes));
}

fn is_object(arguments: &str) -> bool {
    matches!(Json::parse(arguments), Ok(Json::Object(_)))
}
