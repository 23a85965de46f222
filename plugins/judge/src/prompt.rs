//! From a prompt and an item to the messages that a model gets.

use perpend_plugin::host;
use perpend_plugin::model::{Message, Request, Role};
use perpend_plugin::{EvalError, Item, Json};
use perpend_template::Part;

use crate::config::{Asking, Keep, Prompt, Truncate};
use crate::fence;
use crate::variables::Variables;

/// The tokens of a text are estimated by its bytes.
const BYTES_PER_TOKEN: usize = 4;

/// A prompt, filled.
pub(crate) struct Filled {
    pub(crate) messages: Vec<(Role, String)>,
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
                messages
                    .map(|message| (message.role.into(), &*message.content))
                    .collect()
            }
        }
    }

    /// The prompt with the variables of an item. `swap` exchanges two variables.
    pub(crate) fn filled(&self, item: &Item, swap: Option<&[String; 2]>) -> Filled {
        let variables = Variables::of(item);
        let mut filling = Filling {
            asking: self,
            variables: &variables,
            swap,
            fenced: false,
            truncated: Vec::new(),
        };
        let templates = self.templates().into_iter();
        let mut messages: Vec<_> = templates
            .map(|(role, template)| (role, filling.fill(template)))
            .collect();
        if filling.fenced {
            add_system_rule(&mut messages);
        }
        let truncated = filling.truncated;
        Filled {
            messages,
            truncated,
        }
    }

    /// A request with the configured sampling.
    ///
    /// # Errors
    /// `invalid-input` when the prompt is longer than `max_input_tokens`.
    pub(crate) fn request(
        &self,
        messages: Vec<(Role, String)>,
        schema: Option<&Json>,
    ) -> Result<Request, EvalError> {
        let n_bytes: usize = messages.iter().map(|(_, content)| content.len()).sum();
        let n_tokens = n_bytes.div_ceil(BYTES_PER_TOKEN);
        if let Some(limit) = self.max_input_tokens
            && n_tokens > limit as usize
        {
            let message = format!(
                "context_too_long: the prompt has about {n_tokens} tokens, the limit is {limit}"
            );
            return Err(EvalError::invalid_input(message));
        }
        Ok(Request {
            messages: messages.into_iter().map(Message::from).collect(),
            response_schema: schema.map(ToString::to_string),
            temperature: self.temperature,
            top_p: self.top_p,
            max_output_tokens: self.max_output_tokens,
            seed: self.seed.then(host::seed),
            ..Request::default()
        })
    }
}

/// Adds a paragraph to the question: to the last message of the user, or as a new one.
pub(crate) fn add_instruction(messages: &mut Vec<(Role, String)>, instruction: &str) {
    match messages.last_mut() {
        Some((Role::User, content)) => {
            content.push_str("\n\n");
            content.push_str(instruction);
        }
        _ => messages.push((Role::User, instruction.to_owned())),
    }
}

fn add_system_rule(messages: &mut Vec<(Role, String)>) {
    match messages.first_mut() {
        Some((Role::System, content)) => {
            content.push_str("\n\n");
            content.push_str(fence::RULE);
        }
        _ => messages.insert(0, (Role::System, fence::RULE.to_owned())),
    }
}

struct Filling<'a> {
    asking: &'a Asking,
    variables: &'a Variables<'a>,
    swap: Option<&'a [String; 2]>,
    fenced: bool,
    truncated: Vec<(String, Json)>,
}

impl Filling<'_> {
    fn fill(&mut self, template: &str) -> String {
        let mut filled = String::with_capacity(template.len());
        let mut parts = perpend_template::parts(template).peekable();
        while let Some(part) = parts.next() {
            let Part::Variable { name, .. } = part else {
                if let Part::Text(text) = part {
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
                Some(Part::Text(next)) => next.starts_with('\n'),
                Some(Part::Variable { .. }) => false,
            };
            if !ends_line {
                filled.push('\n');
            }
        }
        filled
    }

    /// The text of the variable that takes this place, shortened where that is allowed.
    fn value(&mut self, name: &str) -> String {
        let name = match self.swap {
            Some([first, second]) if name == first => second,
            Some([first, second]) if name == second => first,
            _ => name,
        };
        let text = self.variables.text(name);
        let Some(truncate) = self.asking.truncate.get(name) else {
            return text;
        };
        let Some(short) = shortened(&text, *truncate) else {
            return text;
        };
        if !self.truncated.iter().any(|(known, _)| known == name) {
            let sizes = [("bytes", text.len()), ("kept_bytes", short.n_kept)];
            let sizes = sizes.map(|(key, size)| (key.to_owned(), Json::from(size)));
            self.truncated
                .push((name.to_owned(), Json::Object(sizes.into())));
        }
        short.text
    }
}

struct Shortened {
    text: String,
    n_kept: usize,
}

/// The text cut to its limit, with a note where something was left out; `None` when it fits.
fn shortened(text: &str, truncate: Truncate) -> Option<Shortened> {
    let n_bytes = truncate.tokens as usize * BYTES_PER_TOKEN;
    if text.len() <= n_bytes {
        return None;
    }
    let (n_head, n_tail) = match truncate.keep {
        Keep::Head => (n_bytes, 0),
        Keep::Tail => (0, n_bytes),
        Keep::Middle => (n_bytes / 2, n_bytes - n_bytes / 2),
    };
    let head = &text[..text.floor_char_boundary(n_head)];
    let tail = &text[text.ceil_char_boundary(text.len() - n_tail)..];
    let n_kept = head.len() + tail.len();
    let note = format!("[{} bytes left out]", text.len() - n_kept);
    let lines = [head, &note, tail]
        .into_iter()
        .filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join("\n");
    Some(Shortened { text, n_kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(keep: Keep, text: &str) -> Option<String> {
        shortened(text, Truncate { keep, tokens: 2 }).map(|short| short.text)
    }

    #[test]
    fn a_long_text_keeps_its_head_tail_or_both() {
        let text = "0123456789abcdef";
        assert_eq!(
            cut(Keep::Head, text).as_deref(),
            Some("01234567\n[8 bytes left out]")
        );
        assert_eq!(
            cut(Keep::Tail, text).as_deref(),
            Some("[8 bytes left out]\n89abcdef")
        );
        assert_eq!(
            cut(Keep::Middle, text).as_deref(),
            Some("0123\n[8 bytes left out]\ncdef")
        );
        assert_eq!(cut(Keep::Middle, "01234567"), None);
    }

    #[test]
    fn a_character_is_never_cut_in_two() {
        assert_eq!(
            cut(Keep::Head, "ééééaé").as_deref(),
            Some("éééé\n[3 bytes left out]")
        );
        assert_eq!(
            cut(Keep::Tail, "aé€€€").as_deref(),
            Some("[6 bytes left out]\n€€")
        );
    }
}
