//! The messages for a model, from a prompt and an item.

use std::collections::BTreeMap;

use perpend_plugin::host;
use perpend_plugin::model::{Message, Part as MessagePart, Request, Role};
use perpend_plugin::{EvalError, Item, Json};
use perpend_template::TemplatePart;

use crate::config::{KeepPolicy, Prompt, RequestConfig};
use crate::fence;
use crate::variables::Variables;

/// The tokens of a text are estimated by its bytes.
const BYTES_PER_TOKEN: usize = 4;

/// The maximum length in bytes of the note that replaces omitted text.
const MAX_NOTE: usize = 48;

/// A prompt with its variables inserted.
pub(crate) struct FilledPrompt {
    pub(crate) messages: Vec<Message>,
    /// The variables that were truncated, each with its original and its kept length in bytes.
    pub(crate) truncated: Vec<(String, Json)>,
}

impl RequestConfig {
    /// The templates of the messages, with their roles.
    pub(crate) fn templates(&self) -> Vec<(Role, &str)> {
        match &self.prompt {
            Prompt::Text(text) => vec![(Role::User, text)],
            Prompt::Messages(messages) => {
                let messages = messages.iter();
                messages.map(|message| (message.role.into(), &*message.content)).collect()
            }
        }
    }

    /// The prompt with the variables of an item. `swap` exchanges two variables.
    pub(crate) fn fill(&self, item: &Item, swap: Option<&[String; 2]>) -> FilledPrompt {
        self.fill_within(item, swap, usize::MAX)
    }

    /// As [`Self::fill`], but truncates each inserted value to `longest` bytes.
    pub(crate) fn fill_within(
        &self,
        item: &Item,
        swap: Option<&[String; 2]>,
        longest: usize,
    ) -> FilledPrompt {
        let variables = Variables::of(item);
        let mut filler = Filler {
            request: self,
            variables: &variables,
            swap,
            longest,
            fenced: false,
            truncated: Vec::new(),
        };
        let templates = self.templates().into_iter();
        let mut messages: Vec<_> = templates
            .map(|(role, template)| Message::text(role, filler.expand(template)))
            .collect();
        if filler.fenced {
            add_system_rule(&mut messages);
        }
        let truncated = filler.truncated;
        FilledPrompt { messages, truncated }
    }

    /// The lengths of the variables after `truncate`.
    pub(crate) fn variable_lengths<'a>(
        &'a self,
        item: &Item,
        swap: Option<&'a [String; 2]>,
    ) -> VariableLengths<'a> {
        let variables = Variables::of(item);
        let mut lengths = BTreeMap::<&str, (usize, usize)>::new();
        for (_, template) in self.templates() {
            for part in perpend_template::parts(template) {
                let TemplatePart::Variable { name, .. } = part else {
                    continue;
                };
                let name = exchanged(name, swap);
                let entry = lengths.entry(name).or_insert_with(|| {
                    let text = variables.text(name);
                    (self.truncated(name, &text).map_or(text.len(), |short| short.text.len()), 0)
                });
                entry.1 += 1;
            }
        }
        VariableLengths(lengths)
    }

    fn truncated(&self, name: &str, text: &str) -> Option<TruncatedText> {
        let truncation = self.truncate.get(name)?;
        truncate(
            text,
            truncation.keep,
            (truncation.tokens as usize).saturating_mul(BYTES_PER_TOKEN),
        )
    }

    /// The maximum length of the prompt, in bytes.
    pub(crate) fn limit(&self) -> Option<usize> {
        let limit = self.max_input_tokens?;
        Some((limit as usize).saturating_mul(BYTES_PER_TOKEN))
    }

    /// A request with the configured sampling.
    ///
    /// # Errors
    /// `invalid-input` when the prompt is longer than `max_input_tokens`.
    pub(crate) fn model_request(
        &self,
        messages: Vec<Message>,
        schema: Option<&Json>,
    ) -> Result<Request, EvalError> {
        let n_bytes = size(&messages);
        if let Some(limit) = self.limit()
            && limit < n_bytes
        {
            return Err(self.too_long(n_bytes, ""));
        }
        Ok(Request {
            messages,
            response_schema: schema.map(ToString::to_string),
            temperature: self.temperature,
            top_p: self.top_p,
            max_output_tokens: self.max_output_tokens,
            seed: self.seed.then(host::seed),
            ..Request::default()
        })
    }

    /// The error for a prompt of `n_bytes`; `why` is appended to the message.
    pub(crate) fn too_long(&self, n_bytes: usize, why: &str) -> EvalError {
        let n_tokens = n_bytes.div_ceil(BYTES_PER_TOKEN);
        let limit = self.max_input_tokens.unwrap_or_default();
        EvalError::invalid_input(format!(
            "context_too_long: the prompt must have at most {limit} tokens, got about {n_tokens}{why}"
        ))
    }
}

/// The length of each variable in bytes, and the number of times it is inserted.
pub(crate) struct VariableLengths<'a>(BTreeMap<&'a str, (usize, usize)>);

impl VariableLengths<'_> {
    /// The bytes that all variables take.
    pub(crate) fn total(&self) -> usize {
        self.total_within(usize::MAX)
    }

    /// The length to which the longest variables are truncated, so that all together take at most `n_bytes`.
    pub(crate) fn longest_within(&self, n_bytes: usize) -> usize {
        let (mut low, mut high) = (0, n_bytes);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match self.total_within(middle) <= n_bytes {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        low
    }

    fn total_within(&self, longest: usize) -> usize {
        let each = self
            .0
            .values()
            .map(|(length, n_times)| truncated_size(*length, longest).saturating_mul(*n_times));
        each.fold(0, usize::saturating_add)
    }
}

/// The length of the messages in bytes, as a model reads them.
pub(crate) fn size(messages: &[Message]) -> usize {
    let part = |part: &MessagePart| match part {
        MessagePart::Text(text) => text.len(),
        MessagePart::ToolCall(call) => call.name.len() + call.arguments.len(),
        MessagePart::ToolResult(result) => result.content.len(),
        MessagePart::Image(id) | MessagePart::Audio(id) | MessagePart::File(id) => id.len(),
    };
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts.map(part).sum()
}

/// Adds a paragraph to the last message if it has the role user, else as a new message.
pub(crate) fn add_instruction(messages: &mut Vec<Message>, instruction: &str) {
    match messages.last_mut() {
        Some(last) if last.role == Role::User => add_paragraph(last, instruction),
        _ => messages.push(Message::text(Role::User, instruction)),
    }
}

/// Adds the instruction about fences to the system message, once.
pub(crate) fn add_system_rule(messages: &mut Vec<Message>) {
    match messages.first_mut() {
        Some(first) if first.role == Role::System => {
            if !first.texts().contains(fence::RULE) {
                add_paragraph(first, fence::RULE);
            }
        }
        _ => messages.insert(0, Message::text(Role::System, fence::RULE)),
    }
}

fn add_paragraph(message: &mut Message, paragraph: &str) {
    match message.parts.last_mut() {
        Some(MessagePart::Text(text)) => {
            text.push_str("\n\n");
            text.push_str(paragraph);
        }
        _ => message.parts.push(MessagePart::Text(paragraph.to_owned())),
    }
}

struct Filler<'a> {
    request: &'a RequestConfig,
    variables: &'a Variables<'a>,
    swap: Option<&'a [String; 2]>,
    /// The maximum length of an inserted value, in bytes.
    longest: usize,
    fenced: bool,
    truncated: Vec<(String, Json)>,
}

impl Filler<'_> {
    fn expand(&mut self, template: &str) -> String {
        let mut filled = String::with_capacity(template.len());
        let mut parts = perpend_template::parts(template).peekable();
        while let Some(part) = parts.next() {
            let TemplatePart::Variable { name, .. } = part else {
                if let TemplatePart::Text(text) = part {
                    filled.push_str(text);
                }
                continue;
            };
            let text = self.value(name);
            if !self.request.fence || self.request.trusted.iter().any(|trusted| trusted == name) {
                filled.push_str(&text);
                continue;
            }
            self.fenced = true;
            // Each mark is a line of its own.
            if !filled.is_empty() && !filled.ends_with('\n') {
                filled.push('\n');
            }
            filled.push_str(&fence::fenced(host::seed(), name, &text));
            let ends_line = match parts.peek() {
                None => true,
                Some(TemplatePart::Text(next)) => next.starts_with('\n'),
                Some(TemplatePart::Variable { .. }) => false,
            };
            if !ends_line {
                filled.push('\n');
            }
        }
        filled
    }

    /// The text that replaces the placeholder `name`, truncated where the configuration allows it.
    fn value(&mut self, name: &str) -> String {
        let name = exchanged(name, self.swap);
        let text = self.variables.text(name);
        let mut short = self.request.truncated(name, &text);
        let inserted = short.as_ref().map_or(&text, |short| &short.text);
        if self.longest.saturating_add(MAX_NOTE) < inserted.len() {
            let keep = self.request.truncate.get(name);
            let keep = keep.map_or(KeepPolicy::Middle, |truncation| truncation.keep);
            short = truncate(&text, keep, self.longest);
        }
        let Some(short) = short else {
            return text;
        };
        if !self.truncated.iter().any(|(known, _)| known == name) {
            let sizes = [("bytes", text.len()), ("kept_bytes", short.n_kept)];
            let sizes = sizes.map(|(key, size)| (key.to_owned(), Json::from(size)));
            self.truncated.push((name.to_owned(), Json::Object(sizes.into())));
        }
        short.text
    }
}

/// The variable that is inserted for `name`.
fn exchanged<'a>(name: &'a str, swap: Option<&'a [String; 2]>) -> &'a str {
    match swap {
        Some([first, second]) if name == first => second,
        Some([first, second]) if name == second => first,
        _ => name,
    }
}

/// The length of a text that is truncated to `longest` bytes. A text that is only slightly longer stays whole: the note
/// would be longer than the text it replaces.
fn truncated_size(length: usize, longest: usize) -> usize {
    length.min(longest.saturating_add(MAX_NOTE))
}

pub(crate) struct TruncatedText {
    pub(crate) text: String,
    pub(crate) n_kept: usize,
}

/// The text truncated to `n_bytes`, with a note for the omitted part; `None` when it fits.
fn truncate(text: &str, keep: KeepPolicy, n_bytes: usize) -> Option<TruncatedText> {
    if text.len() <= n_bytes {
        return None;
    }
    let (n_head, n_tail) = match keep {
        KeepPolicy::Head => (n_bytes, 0),
        KeepPolicy::Tail => (0, n_bytes),
        KeepPolicy::Middle => (n_bytes / 2, n_bytes - n_bytes / 2),
    };
    let head = &text[..text.floor_char_boundary(n_head)];
    let tail = &text[text.ceil_char_boundary(text.len() - n_tail)..];
    let n_kept = head.len() + tail.len();
    let note = format!("[{} bytes left out]", text.len() - n_kept);
    let lines = [head, &note, tail].into_iter().filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join("\n");
    Some(TruncatedText { text, n_kept })
}

#[cfg(test)]
mod tests {
    use super::{KeepPolicy, truncate};

    fn cut(keep: KeepPolicy, text: &str) -> Option<String> {
        truncate(text, keep, 8).map(|short| short.text)
    }

    #[test]
    fn a_long_text_keeps_its_head_its_tail_or_both() {
        let text = "0123456789abcdef";
        assert_eq!(cut(KeepPolicy::Head, text).as_deref(), Some("01234567\n[8 bytes left out]"));
        assert_eq!(cut(KeepPolicy::Tail, text).as_deref(), Some("[8 bytes left out]\n89abcdef"));
        assert_eq!(
            cut(KeepPolicy::Middle, text).as_deref(),
            Some("0123\n[8 bytes left out]\ncdef")
        );
        assert_eq!(cut(KeepPolicy::Middle, "01234567"), None);
    }

    #[test]
    fn a_character_is_never_split() {
        assert_eq!(cut(KeepPolicy::Head, "ééééaé").as_deref(), Some("éééé\n[3 bytes left out]"));
        assert_eq!(cut(KeepPolicy::Tail, "aé€€€").as_deref(), Some("[6 bytes left out]\n€€"));
    }
}
