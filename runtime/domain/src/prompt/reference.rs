//! References to other prompts in a text.

use super::checked::{InvalidPrompt, check_label, invalid};

pub(super) const OPEN: &str = "@@@langfusePrompt:";

pub(super) const CLOSE: &str = "@@@";

/// Selects a version of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VersionSelector {
    /// The one with this number.
    Version(i64),
    /// The one that has this label now.
    Label(String),
}

/// A reference to a prompt in the text of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Name of the included prompt.
    pub name: String,
    /// The version of it.
    pub selector: VersionSelector,
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.selector {
            VersionSelector::Version(version) => write!(f, "{} version {version}", self.name),
            VersionSelector::Label(label) => write!(f, "{} with label {label}", self.name),
        }
    }
}

/// Splits a text at its references.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let Some((before, after)) = text.split_once(OPEN) else {
            return Some((text, None));
        };
        match after.split_once(CLOSE) {
            Some((inner, after)) => {
                rest = Some(after);
                Some((before, Some(inner)))
            }
            // An unterminated reference is text.
            None => Some((text, None)),
        }
    })
}

pub(super) fn reference(inner: &str) -> Result<Reference, InvalidPrompt> {
    let wrong = || {
        InvalidPrompt(format!(
            "a reference must contain name=NAME|version=NUMBER or name=NAME|label=LABEL, got {OPEN}{inner}{CLOSE}"
        ))
    };
    let (name, selector) = inner.split_once('|').ok_or_else(wrong)?;
    let name = name.strip_prefix("name=").filter(|name| !name.is_empty()).ok_or_else(wrong)?;
    let selector = match selector.split_once('=') {
        Some(("version", number)) => match number.parse() {
            Ok(number) if 0 < number => VersionSelector::Version(number),
            _ => {
                return invalid(format!(
                    "the version in {OPEN}{inner}{CLOSE} must be a positive number, got {number:?}"
                ));
            }
        },
        Some(("label", label)) => {
            check_label(label)?;
            VersionSelector::Label(label.to_owned())
        }
        _ => return Err(wrong()),
    };
    Ok(Reference { name: name.to_owned(), selector })
}

/// The references of a text, in order.
pub fn references(text: &str) -> impl Iterator<Item = Result<Reference, InvalidPrompt>> {
    pieces(text).filter_map(|(_, inner)| inner).map(reference)
}
