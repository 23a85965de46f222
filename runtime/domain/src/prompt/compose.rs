//! Composition of prompts: replaces the references in a text by the included prompts.
//!
//! Invariants:
//! - **Bounded.** Inclusions go [`MAX_DEPTH`] levels deep, a composed prompt has at most [`MAX_BYTES`]
//!   bytes, and each included version is composed once, even if it is included several times.
//! - **No loading here.** [`compose`] returns the missing prompts; the caller loads them and calls it again.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::reference::{pieces, reference};
use super::{PromptBody, PromptKind};
use crate::prompt::reference::CLOSE;
use crate::prompt::reference::OPEN;

pub use super::reference::{Reference, VersionSelector, references};

/// Levels of inclusion below a prompt.
pub const MAX_DEPTH: usize = 5;
/// Largest composed prompt in bytes.
pub const MAX_BYTES: usize = 4 << 20;

/// A prompt version for composition.
#[derive(Clone, Debug, PartialEq)]
pub struct IncludedPrompt {
    /// Id of the version.
    pub id: String,
    /// Name of the prompt.
    pub name: String,
    /// Number of the version.
    pub version: i64,
    /// Its text or messages.
    pub body: PromptBody,
}

/// A composed prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct ComposedPrompt {
    /// Its text or messages.
    pub body: PromptBody,
    /// The included versions of each version, by its id, in order.
    pub included: Vec<(String, Vec<IncludedPrompt>)>,
}

/// The reason why a prompt cannot be composed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    /// Prompts that have to be loaded.
    #[error("{} included prompts are not known", .0.len())]
    Needs(Vec<Reference>),
    /// A prompt includes itself, directly or through others.
    #[error("prompts include each other in a circle: {}", .0.join(" includes "))]
    Circle(Vec<String>),
    /// Too many levels.
    #[error("prompts include each other more than {MAX_DEPTH} levels deep: {}", .0.join(" includes "))]
    TooDeep(Vec<String>),
    /// Too large.
    #[error("the composed prompt must have at most {MAX_BYTES} bytes")]
    TooLarge,
    /// An included prompt has messages.
    #[error("{0} is a chat prompt; only text prompts can be included")]
    NotText(String),
}

/// Composes `root`. `known` are the prompts loaded so far.
///
/// # Errors
/// [`ComposeError::Needs`] lists prompts to load; every other error is final.
pub fn compose(
    root: &IncludedPrompt,
    known: &HashMap<Reference, IncludedPrompt>,
) -> Result<ComposedPrompt, ComposeError> {
    let mut work = Composer {
        known,
        missing: Vec::new(),
        done: HashMap::new(),
        path: vec![root.name.clone()],
        included: Vec::new(),
    };
    let body = match &root.body {
        PromptBody::Text(text) => PromptBody::Text(work.text(&root.id, &[text])?.remove(0)),
        PromptBody::Chat(messages) => {
            let contents: Vec<&str> = messages.iter().map(content).collect();
            let composed = work.text(&root.id, &contents)?;
            let messages = messages.iter().zip(composed).map(|(message, text)| {
                let mut message = message.clone();
                if let Some(content) = message.get_mut("content").filter(|c| c.is_string()) {
                    *content = text.into();
                }
                message
            });
            PromptBody::Chat(messages.collect())
        }
    };
    if !work.missing.is_empty() {
        return Err(ComposeError::Needs(work.missing));
    }
    Ok(ComposedPrompt { body, included: work.included })
}

fn content(message: &Map<String, Value>) -> &str {
    message.get("content").and_then(Value::as_str).unwrap_or_default()
}

struct Composer<'k> {
    known: &'k HashMap<Reference, IncludedPrompt>,
    missing: Vec<Reference>,
    /// Composed text of a version by its id, with the levels below it.
    done: HashMap<String, (String, usize)>,
    /// Names from the root to the current prompt.
    path: Vec<String>,
    included: Vec<(String, Vec<IncludedPrompt>)>,
}

impl Composer<'_> {
    /// The composed texts of one version.
    fn text(&mut self, id: &str, texts: &[&str]) -> Result<Vec<String>, ComposeError> {
        let mut parts: Vec<IncludedPrompt> = Vec::new();
        let mut composed = Vec::with_capacity(texts.len());
        let mut height = 0;
        let mut n_bytes = 0;
        for text in texts {
            let mut out = String::new();
            for (before, inner) in pieces(text) {
                out.push_str(before);
                let Some(inner) = inner else { continue };
                let Ok(reference) = reference(inner) else {
                    // Stored before references were checked: it stays text.
                    out.push_str(OPEN);
                    out.push_str(inner);
                    out.push_str(CLOSE);
                    continue;
                };
                if let Some((part, below)) = self.include(&reference, &mut out)? {
                    height = height.max(below + 1);
                    if parts.iter().all(|known| known.id != part.id) {
                        parts.push(part);
                    }
                }
                if MAX_BYTES < n_bytes + out.len() {
                    return Err(ComposeError::TooLarge);
                }
            }
            n_bytes += out.len();
            composed.push(out);
        }
        if !parts.is_empty() {
            self.included.push((id.to_owned(), parts));
        }
        if MAX_DEPTH < self.path.len() - 1 + height {
            return Err(ComposeError::TooDeep(self.path.clone()));
        }
        self.done.insert(id.to_owned(), (String::new(), height));
        Ok(composed)
    }

    /// Appends an included prompt and returns it with the number of levels below it.
    fn include(
        &mut self,
        reference: &Reference,
        out: &mut String,
    ) -> Result<Option<(IncludedPrompt, usize)>, ComposeError> {
        if self.path.contains(&reference.name) {
            let mut circle = self.path.clone();
            circle.push(reference.name.clone());
            return Err(ComposeError::Circle(circle));
        }
        let Some(part) = self.known.get(reference) else {
            if !self.missing.contains(reference) {
                self.missing.push(reference.clone());
            }
            return Ok(None);
        };
        let PromptBody::Text(text) = &part.body else {
            return Err(ComposeError::NotText(reference.to_string()));
        };
        debug_assert_eq!(part.body.kind(), PromptKind::Text);
        if let Some((text, height)) = self.done.get(&part.id) {
            if MAX_DEPTH < self.path.len() + height {
                return Err(ComposeError::TooDeep(self.path.clone()));
            }
            out.push_str(text);
            return Ok(Some((part.clone(), *height)));
        }
        if MAX_DEPTH < self.path.len() {
            let mut path = self.path.clone();
            path.push(reference.name.clone());
            return Err(ComposeError::TooDeep(path));
        }
        self.path.push(part.name.clone());
        let text = self.text(&part.id, &[text])?.remove(0);
        self.path.pop();
        out.push_str(&text);
        let height = self.done.get(&part.id).map_or(0, |(_, height)| *height);
        self.done.insert(part.id.clone(), (text, height));
        Ok(Some((part.clone(), height)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn part(name: &str, text: &str) -> IncludedPrompt {
        IncludedPrompt {
            id: format!("id-{name}"),
            name: name.to_owned(),
            version: 1,
            body: PromptBody::Text(text.to_owned()),
        }
    }

    fn include(name: &str) -> String {
        format!("{OPEN}name={name}|version=1{CLOSE}")
    }

    fn known(parts: &[IncludedPrompt]) -> HashMap<Reference, IncludedPrompt> {
        let entry = |part: &IncludedPrompt| {
            let reference =
                Reference { name: part.name.clone(), selector: VersionSelector::Version(1) };
            (reference, part.clone())
        };
        parts.iter().map(entry).collect()
    }

    fn text(composed: &ComposedPrompt) -> &str {
        composed.body.texts().next().unwrap()
    }

    #[test]
    fn references_read_as_version_or_label_and_anything_else_is_named() {
        let text = "a @@@langfusePrompt:name=x/y|version=2@@@ b @@@langfusePrompt:name=z|label=prod@@@ c @@@";
        let found: Vec<_> = references(text).map(Result::unwrap).collect();
        assert_eq!(found[0].to_string(), "x/y version 2");
        assert_eq!(found[1].to_string(), "z with label prod");
        assert_eq!(found.len(), 2);
        for wrong in [
            "name=x",
            "x|version=1",
            "name=|version=1",
            "name=x|version=a",
            "name=x|version=0",
            "name=x|label=A",
        ] {
            let text = format!("{OPEN}{wrong}{CLOSE}");
            assert!(references(&text).next().unwrap().is_err(), "{wrong}");
        }
        assert_eq!(references("@@@langfusePrompt:name=x|version=1").count(), 0);
    }

    #[test]
    fn missing_references_are_requested_level_by_level() {
        let root = part("root", &format!("{} and {}", include("a"), include("b")));
        let Err(ComposeError::Needs(missing)) = compose(&root, &HashMap::new()) else {
            panic!("nothing is known yet");
        };
        assert_eq!(missing.len(), 2);
        let parts = [part("a", &include("b")), part("b", "B")];
        let composed = compose(&root, &known(&parts)).unwrap();
        assert_eq!(text(&composed), "B and B");
        let included: HashMap<_, _> = composed.included.iter().cloned().collect();
        assert_eq!(included["id-root"].len(), 2);
        assert_eq!(included["id-a"][0].name, "b");
    }

    #[test]
    fn messages_include_texts_and_keep_their_other_members() {
        let raw = json!([
            { "role": "system", "content": include("a"), "n": 1 },
            { "type": "placeholder", "name": "history" },
        ]);
        let mut root = part("root", "");
        root.body = PromptBody::parse(PromptKind::Chat, raw).unwrap();
        let composed = compose(&root, &known(&[part("a", "A {{x}}")])).unwrap();
        let body = composed.body.to_json();
        assert_eq!(
            body[0],
            json!({ "type": "chatmessage", "role": "system", "content": "A {{x}}", "n": 1 })
        );
        assert_eq!(body[1]["name"], "history");
        let error = compose(&part("r", &include("root")), &known(&[root])).unwrap_err();
        assert!(matches!(error, ComposeError::NotText(_)), "{error}");
    }

    #[test]
    fn circles_end_and_are_shown() {
        let parts = [part("a", &include("b")), part("b", &include("a"))];
        let error = compose(&parts[0], &known(&parts)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "prompts include each other in a circle: a includes b includes a"
        );
    }

    #[test]
    fn five_levels_are_allowed_and_six_are_not_in_whatever_order_they_are_met() {
        let chain = |n: usize| -> Vec<IncludedPrompt> {
            (0..=n)
                .map(|at| match at == n {
                    true => part(&format!("p{at}"), "end"),
                    false => part(&format!("p{at}"), &include(&format!("p{}", at + 1))),
                })
                .collect()
        };
        let five = chain(5);
        assert_eq!(text(&compose(&five[0], &known(&five)).unwrap()), "end");
        let six = chain(6);
        assert!(matches!(compose(&six[0], &known(&six)), Err(ComposeError::TooDeep(_))));
        // The deep part is composed first from nearby, where it fits, then from further down.
        let mut parts = chain(5);
        parts.push(part("root", &format!("{}{}", include("p1"), include("deep"))));
        parts.push(part("deep", &include("p1")));
        let root = &parts[6];
        assert!(matches!(compose(root, &known(&parts)), Err(ComposeError::TooDeep(_))));
    }

    #[test]
    fn a_prompt_that_doubles_at_each_level_is_stopped_at_the_limit() {
        let double = |name: &str, next: &str| part(name, &include(next).repeat(1_000));
        let parts = [
            double("a", "b"),
            double("b", "c"),
            double("c", "d"),
            double("d", "e"),
            part("e", "x"),
        ];
        assert_eq!(compose(&parts[0], &known(&parts)), Err(ComposeError::TooLarge));
    }
}
