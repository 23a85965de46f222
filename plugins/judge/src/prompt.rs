//! From a prompt and an item to the messages that a model gets.

use std::collections::BTreeMap;

use perpend_plugin::host;
use perpend_plugin::model::{Message, Part as MessagePart, Request, Role};
use perpend_plugin::{EvalError, Item, Json};
use perpend_template::TemplatePart;

use crate::config::{Asking, Keep, Prompt};
use crate::fence;
use crate::variables::Variables;

/// The tokens of a text are estimated by its bytes.
const BYTES_PER_TOKEN: usize = 4;

/// What stands where something was left out takes at most so many bytes.
const NOTE: usize = 48;

/// A prompt, filled.
pub(crate) struct Filled {
    pub(crate) messages: Vec<Message>,
    /// The variables that were shortened, with the bytes they had and the bytes that were kept.
    pub(crate) truncated: Vec<(String, Json)>,
}

impl Asking {
    /// The contents of the messages with their roles, as configured.
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
    pub(crate) fn filled(&self, item: &Item, swap: Option<&[String; 2]>) -> Filled {
        self.filled_up_to(item, swap, usize::MAX)
    }

    /// The same with the middle of what was inserted left out wherever it is longer than so many bytes.
    pub(crate) fn filled_up_to(
        &self,
        item: &Item,
        swap: Option<&[String; 2]>,
        longest: usize,
    ) -> Filled {
        let variables = Variables::of(item);
        let mut filling = Filling {
            asking: self,
            variables: &variables,
            swap,
            longest,
            fenced: false,
            truncated: Vec::new(),
        };
        let templates = self.templates().into_iter();
        let mut messages: Vec<_> =
            templates.map(|(role, template)| Message::text(role, filling.fill(template))).collect();
        if filling.fenced {
            add_system_rule(&mut messages);
        }
        let truncated = filling.truncated;
        Filled { messages, truncated }
    }

    /// How long each variable is, `truncate` applied, and how often it is inserted.
    pub(crate) fn lengths<'a>(&'a self, item: &Item, swap: Option<&'a [String; 2]>) -> Lengths<'a> {
        let variables = Variables::of(item);
        let mut lengths = BTreeMap::<&str, (usize, usize)>::new();
        for (_, template) in self.templates() {
            for part in perpend_template::parts(template) {
                let TemplatePart::Variable { name, .. } = part else {
                    continue;
                };
                let name = in_place_of(name, swap);
                let entry = lengths.entry(name).or_insert_with(|| {
                    let text = variables.text(name);
                    (self.truncated(name, &text).map_or(text.len(), |short| short.text.len()), 0)
                });
                entry.1 += 1;
            }
        }
        Lengths(lengths)
    }

    fn truncated(&self, name: &str, text: &str) -> Option<Shortened> {
        let truncate = self.truncate.get(name)?;
        shortened(text, truncate.keep, (truncate.tokens as usize).saturating_mul(BYTES_PER_TOKEN))
    }

    /// Bytes that a prompt may have.
    pub(crate) fn limit(&self) -> Option<usize> {
        let limit = self.max_input_tokens?;
        Some((limit as usize).saturating_mul(BYTES_PER_TOKEN))
    }

    /// A request with the configured sampling.
    ///
    /// # Errors
    /// `invalid-input` when the prompt is longer than `max_input_tokens`.
    pub(crate) fn request(
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

    /// The prompt has so many bytes and cannot be asked with.
    pub(crate) fn too_long(&self, n_bytes: usize, why: &str) -> EvalError {
        let n_tokens = n_bytes.div_ceil(BYTES_PER_TOKEN);
        let limit = self.max_input_tokens.unwrap_or_default();
        EvalError::invalid_input(format!(
            "context_too_long: the prompt has about {n_tokens} tokens, the limit is {limit}{why}"
        ))
    }
}

/// How long each variable is, and how often it is inserted.
pub(crate) struct Lengths<'a>(BTreeMap<&'a str, (usize, usize)>);

impl Lengths<'_> {
    /// Bytes that all of them take.
    pub(crate) fn total(&self) -> usize {
        self.taken(usize::MAX)
    }

    /// Bytes that are left of the longest ones, so that all of them take at most so many.
    pub(crate) fn longest_within(&self, n_bytes: usize) -> usize {
        let (mut low, mut high) = (0, n_bytes);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match self.taken(middle) <= n_bytes {
                true => low = middle,
                false => high = middle - 1,
            }
        }
        low
    }

    fn taken(&self, longest: usize) -> usize {
        let each =
            self.0.values().map(|(length, n_times)| cut(*length, longest).saturating_mul(*n_times));
        each.fold(0, usize::saturating_add)
    }
}

/// Bytes of the messages as a model reads them.
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

/// Adds a paragraph to the question: to the last message of the user, or as a new one.
pub(crate) fn add_instruction(messages: &mut Vec<Message>, instruction: &str) {
    match messages.last_mut() {
        Some(last) if last.role == Role::User => add_paragraph(last, instruction),
        _ => messages.push(Message::text(Role::User, instruction)),
    }
}

/// Tells the model once what fences are.
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

struct Filling<'a> {
    asking: &'a Asking,
    variables: &'a Variables<'a>,
    swap: Option<&'a [String; 2]>,
    /// Bytes of an inserted text.
    longest: usize,
    fenced: bool,
    truncated: Vec<(String, Json)>,
}

impl Filling<'_> {
    fn fill(&mut self, template: &str) -> String {
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
            if !self.asking.fence || self.asking.trusted.iter().any(|trusted| trusted == name) {
                filled.push_str(&text);
                continue;
            }
            self.fenced = true;
            // The marks stand on lines of their own.
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

    /// The text of the variable that takes this place, shortened where that is allowed.
    fn value(&mut self, name: &str) -> String {
        let name = in_place_of(name, self.swap);
        let text = self.variables.text(name);
        let mut short = self.asking.truncated(name, &text);
        let shown = short.as_ref().map_or(&text, |short| &short.text);
        if self.longest.saturating_add(NOTE) < shown.len() {
            let keep = self.asking.truncate.get(name);
            let keep = keep.map_or(Keep::Middle, |truncate| truncate.keep);
            short = shortened(&text, keep, self.longest);
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

/// The variable that takes the place of another one.
fn in_place_of<'a>(name: &'a str, swap: Option<&'a [String; 2]>) -> &'a str {
    match swap {
        Some([first, second]) if name == first => second,
        Some([first, second]) if name == second => first,
        _ => name,
    }
}

/// Bytes that a text takes when no more than so many of it are kept. A text that is hardly longer stays whole: the note
/// would be longer than what it replaces.
fn cut(length: usize, longest: usize) -> usize {
    length.min(longest.saturating_add(NOTE))
}

pub(crate) struct Shortened {
    pub(crate) text: String,
    pub(crate) n_kept: usize,
}

/// The text cut to so many bytes, with a note where something was left out; `None` when it fits.
fn shortened(text: &str, keep: Keep, n_bytes: usize) -> Option<Shortened> {
    if text.len() <= n_bytes {
        return None;
    }
    let (n_head, n_tail) = match keep {
        Keep::Head => (n_bytes, 0),
        Keep::Tail => (0, n_bytes),
        Keep::Middle => (n_bytes / 2, n_bytes - n_bytes / 2),
    };
    let head = &text[..text.floor_char_boundary(n_head)];
    let tail = &text[text.ceil_char_boundary(text.len() - n_tail)..];
    let n_kept = head.len() + tail.len();
    let note = format!("[{} bytes left out]", text.len() - n_kept);
    let lines = [head, &note, tail].into_iter().filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join("\n");
    Some(Shortened { text, n_kept })
}

#[cfg(test)]
mod tests {
    use super::{Keep, shortened};

    fn cut(keep: Keep, text: &str) -> Option<String> {
        shortened(text, keep, 8).map(|short| short.text)
    }

    #[test]
    fn a_long_text_keeps_its_head_tail_or_both() {
        let text = "0123456789abcdef";
        assert_eq!(cut(Keep::Head, text).as_deref(), Some("01234567\n[8 bytes left out]"));
        assert_eq!(cut(Keep::Tail, text).as_deref(), Some("[8 bytes left out]\n89abcdef"));
        assert_eq!(cut(Keep::Middle, text).as_deref(), Some("0123\n[8 bytes left out]\ncdef"));
        assert_eq!(cut(Keep::Middle, "01234567"), None);
    }

    #[test]
    fn a_character_is_never_cut_in_two() {
        assert_eq!(cut(Keep::Head, "ééééaé").as_deref(), Some("éééé\n[3 bytes left out]"));
        assert_eq!(cut(Keep::Tail, "aé€€€").as_deref(), Some("[6 bytes left out]\n€€"));
    }
}
