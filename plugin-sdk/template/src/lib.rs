//! Prompt templates: `{{ name }}` and nothing else (evaluation.md 3.1).
//!
//! A crate of its own because the server and the judge plug-in must read a prompt in the same way.
//!
//! Invariant: inserted text is never parsed. A template is read once, from left to right.

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Text that stays as it is.
    Text(&'a str),
    /// A placeholder.
    Variable {
        /// The name between the braces.
        name: &'a str,
        /// The placeholder with its braces.
        raw: &'a str,
    },
}

/// The parts of a template, in order. Together they are the whole template.
pub fn parts(template: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, n_bytes)) = placeholder(rest) {
            let (raw, after) = rest.split_at(n_bytes);
            rest = after;
            return Some(Part::Variable { name, raw });
        }
        let (text, after) = rest.split_at(start_of_placeholder(rest));
        rest = after;
        Some(Part::Text(text))
    })
}

/// Replaces placeholders in one pass. A name for which `value_of` returns `None` stays as it is written.
#[must_use]
pub fn fill(template: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(template.len());
    for part in parts(template) {
        match part {
            Part::Text(text) => filled.push_str(text),
            Part::Variable { name, raw } => match value_of(name) {
                Some(value) => filled.push_str(&value),
                None => filled.push_str(raw),
            },
        }
    }
    filled
}

/// The names of the placeholders, in order of first appearance.
#[must_use]
pub fn names(template: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for part in parts(template) {
        if let Part::Variable { name, .. } = part
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// What is written like a placeholder and is none, because no name is between its braces: `{{user-name}}`. It would reach the
/// model as it is written. Text in quotation marks is an object in JSON rather than a name.
#[must_use]
pub fn malformed(template: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for part in parts(template) {
        let Part::Text(text) = part else { continue };
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            // The innermost braces count: `{{{a-b}}}`.
            let start = start + rest[start..].bytes().take_while(|byte| *byte == b'{').count() - 2;
            let inner = &rest[start + 2..];
            let end = inner.find(['{', '}']).unwrap_or(inner.len());
            let (name, after) = inner.split_at(end);
            let is_name =
                !name.trim().contains('\n') && !name.trim_start().starts_with(['"', '\'']);
            if after.starts_with("}}") && is_name {
                let raw = &rest[start..start + 2 + end + 2];
                if !found.contains(&raw) {
                    found.push(raw);
                }
            }
            rest = after;
        }
    }
    found
}

/// Where the first placeholder after the start of `text` begins; the length of `text` without one.
fn start_of_placeholder(text: &str) -> usize {
    let starts = text.match_indices('{').map(|(at, _)| at);
    starts
        .filter(|at| *at != 0)
        .find(|at| placeholder(&text[*at..]).is_some())
        .unwrap_or(text.len())
}

/// The name of the placeholder that `text` begins with, and its length in bytes.
fn placeholder(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("{{")?;
    let name_on = inner.trim_start();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let n_name = name_on.find(|c| !is_name(c))?;
    let (name, after) = name_on.split_at(n_name);
    let end = after.trim_start().strip_prefix("}}")?;
    (!name.is_empty()).then(|| (name, text.len() - end.len()))
}
