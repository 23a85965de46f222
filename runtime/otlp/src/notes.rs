//! Notices about changed values of a span or an event.
//!
//! Every limit on a field goes through [`Notes`]: the stored value is truncated or replaced, and the metadata and the response
//! report it.

use perpend_domain::ids::{MAX_ID_BYTES, MAX_ID_CHARS, fits};
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use crate::limits::{cut_bytes, cut_chars};

/// Notices kept for one span.
const MAX_NOTICES: usize = 50;
/// Characters of a value that a notice repeats.
const MAX_SHOWN_CHARS: usize = 60;
/// The end of an id that was cut: a separator and half of a digest.
const DIGEST_BYTES: usize = 8;
const SUFFIX_CHARS: usize = 1 + 2 * DIGEST_BYTES;

/// The metadata key for the sizes of truncated values.
pub(crate) const TRUNCATED: &str = "truncated";
/// The metadata key for explanations of replaced or ignored values.
const NOTICES: &str = "notices";

/// Characters of a fact that names something, such as a model or a release.
const MAX_FACT_CHARS: usize = 800;
/// Bytes of text in one key of an index: PostgreSQL allows 2,704 including numbers and headers.
const MAX_KEY_BYTES: usize = 2_400;

/// Changes of one span or event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// Size of what was cut or dropped, by field.
    truncated: Map<String, Json>,
    /// Explanation of what was replaced or ignored, by field.
    notices: Map<String, Json>,
    /// The same of usual repairs, which the answer does not mention.
    repairs: Map<String, Json>,
}

impl Notes {
    /// A field of `n_bytes` bytes was truncated.
    pub(crate) fn cut(&mut self, field: &str, n_bytes: usize) {
        self.truncated.insert(field.to_owned(), n_bytes.into());
    }

    /// A field is stored with another value, or in part.
    pub(crate) fn replaced(&mut self, field: &str, explanation: String) {
        if self.notices.len() < MAX_NOTICES {
            let field = cut_chars(field, MAX_SHOWN_CHARS).to_owned();
            self.notices.insert(field, explanation.into());
        }
    }

    /// A field contradicts another one and is repaired, as senders expect. Recorded in the metadata only.
    pub(crate) fn repaired(&mut self, field: &str, explanation: String) {
        self.repairs.insert(field.to_owned(), explanation.into());
    }

    /// A value cannot be used and is ignored.
    pub(crate) fn ignored(&mut self, field: &str, value: &str, expected: &str) {
        let shown = cut_chars(value, MAX_SHOWN_CHARS);
        self.replaced(field, format!("must be {expected}, got {shown}; the value is ignored"));
    }

    /// Truncates a text to `max_chars` characters.
    pub(crate) fn limit_chars(&mut self, field: &str, text: &mut String, max_chars: usize) {
        let kept = cut_chars(text, max_chars).len();
        if kept < text.len() {
            self.cut(field, text.len());
            text.truncate(kept);
        }
    }

    /// Keeps as much of an identifier as an index holds. Identifiers that begin alike stay apart: a digest of the whole
    /// replaces the end.
    pub(crate) fn limit_id(&mut self, field: &str, id: &mut String) {
        if fits(id) {
            return;
        }
        self.cut(field, id.len());
        let digest = Sha256::digest(id.as_bytes());
        let kept = cut_chars(id, MAX_ID_CHARS - SUFFIX_CHARS);
        let kept = cut_bytes(kept, MAX_ID_BYTES - SUFFIX_CHARS).len();
        id.truncate(kept);
        id.push('~');
        for byte in &digest[..DIGEST_BYTES] {
            id.push_str(&format!("{byte:02x}"));
        }
    }

    /// Truncates a name to a number of characters and to the bytes that its index key has left after the id: with the short
    /// ids of spans at least 790 characters of three bytes.
    pub(crate) fn limit_name(
        &mut self,
        field: &str,
        name: &mut String,
        max_chars: usize,
        id: &str,
    ) {
        let max_bytes = MAX_KEY_BYTES.saturating_sub(id.len());
        let kept = cut_bytes(cut_chars(name, max_chars), max_bytes).len();
        if kept < name.len() {
            self.cut(field, name.len());
            name.truncate(kept);
        }
    }

    /// Cuts a fact that is too long.
    pub(crate) fn limit_fact(&mut self, field: &str, fact: Option<&mut String>) {
        if let Some(text) = fact {
            self.limit_name(field, text, MAX_FACT_CHARS, "");
        }
    }

    /// Adds what was noted elsewhere.
    pub(crate) fn extend(&mut self, other: Self) {
        self.truncated.extend(other.truncated);
        self.notices.extend(other.notices);
        self.repairs.extend(other.repairs);
    }

    /// One explanation of each change: the field, and the change.
    pub(crate) fn explanations(&self) -> impl Iterator<Item = String> {
        let cut = self.truncated.iter();
        let cut = cut.map(|(field, size)| match size {
            Json::Number(_) => format!("{field} was cut from {size} bytes"),
            other => format!("{field}: {}", other.as_str().unwrap_or_default()),
        });
        let notices = self.notices.iter();
        cut.chain(
            notices.map(|(field, text)| format!("{field} {}", text.as_str().unwrap_or_default())),
        )
    }

    /// JSON below a field is deeper than what is kept.
    pub(crate) fn cut_levels(&mut self, field: &str, max_depth: usize) {
        let note = format!("levels deeper than {max_depth}");
        self.truncated.insert(field.to_owned(), note.into());
    }

    /// Writes the notes into the metadata. A key of the user that is not an object stays as it is.
    pub(crate) fn write(mut self, metadata: &mut Map<String, Json>) {
        self.notices.extend(self.repairs);
        for (key, notes) in [(TRUNCATED, self.truncated), (NOTICES, self.notices)] {
            if notes.is_empty() {
                continue;
            }
            match metadata.get_mut(key) {
                Some(Json::Object(known)) => known.extend(notes),
                Some(_) => {}
                None => {
                    metadata.insert(key.to_owned(), Json::Object(notes));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_that_begin_alike_stay_apart_when_they_are_cut() {
        for unit in ["x", "字", "😀"] {
            let cut = |end: &str| {
                let mut notes = Notes::default();
                let mut id = unit.repeat(900) + end;
                notes.limit_id("userId", &mut id);
                assert!(fits(&id), "{} bytes", id.len());
                assert_eq!(notes.explanations().count(), 1);
                id
            };
            assert_ne!(cut("a"), cut("b"));
            assert_eq!(cut("a"), cut("a"));
        }
        let mut short = "x".repeat(MAX_ID_CHARS);
        let mut notes = Notes::default();
        notes.limit_id("userId", &mut short);
        assert_eq!((short.len(), notes.explanations().count()), (MAX_ID_CHARS, 0));
    }

    #[test]
    fn names_and_facts_are_truncated_at_a_character_and_facts_are_noted() {
        let length = |text: String, id: &str| {
            let mut name = text;
            Notes::default().limit_name("name", &mut name, 1_024, id);
            name.len()
        };
        assert_eq!(length("x".repeat(2_000), "id"), 1_024);
        assert_eq!(length("é".repeat(2_000), "id"), 2_048);
        assert_eq!(length("字".repeat(790), "id"), 2_370);
        assert_eq!(length("字".repeat(1_024), &"i".repeat(1_200)), 1_200);
        let mut notes = Notes::default();
        let mut model = "🦀".repeat(1_000);
        notes.limit_fact("model", Some(&mut model));
        let mut fine = "x".repeat(800);
        notes.limit_fact("release", Some(&mut fine));
        notes.limit_fact("version", None);
        let explanations: Vec<String> = notes.explanations().collect();
        assert_eq!((model.len(), fine.len()), (2_400, 800));
        assert_eq!(explanations, ["model was cut from 4000 bytes"]);
    }
}
