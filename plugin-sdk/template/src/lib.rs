//! Prompt templates with placeholders `{{ name }}` and no other syntax.
//!
//! A separate crate because the server and the judge plug-in must parse templates in the same way.
//!
//! Invariant: inserted text is never parsed. A template is read once, from left to right.

/// A part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplatePart<'a> {
    /// Literal text.
    Text(&'a str),
    /// A placeholder.
    Variable {
        /// The name between the braces.
        name: &'a str,
        /// The placeholder with its braces.
        raw: &'a str,
    },
}

/// The parts of a template, in order. Their concatenation is the template.
pub fn parts(template: &str) -> impl Iterator<Item = TemplatePart<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, n_bytes)) = placeholder(rest) {
            let (raw, after) = rest.split_at(n_bytes);
            rest = after;
            return Some(TemplatePart::Variable { name, raw });
        }
        let (text, after) = rest.split_at(start_of_placeholder(rest));
        rest = after;
        Some(TemplatePart::Text(text))
    })
}

/// Replaces placeholders in one pass. A placeholder for which `value_of` returns `None` is kept.
#[must_use]
pub fn fill(template: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(template.len());
    for part in parts(template) {
        match part {
            TemplatePart::Text(text) => filled.push_str(text),
            TemplatePart::Variable { name, raw } => match value_of(name) {
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
        if let TemplatePart::Variable { name, .. } = part
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// Malformed placeholders, such as `{{user-name}}`, in order of first appearance. They would reach the model unchanged. Text
/// that starts with a quotation mark is a JSON object rather than a placeholder.
#[must_use]
pub fn malformed(template: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for part in parts(template) {
        let TemplatePart::Text(text) = part else { continue };
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            // The innermost braces delimit the placeholder: `{{{a-b}}}`.
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

/// Byte offset of the first placeholder after the start of `text`; the length of `text` when there is none.
fn start_of_placeholder(text: &str) -> usize {
    let starts = text.match_indices('{').map(|(at, _)| at);
    starts
        .filter(|at| *at != 0)
        .find(|at| placeholder(&text[*at..]).is_some())
        .unwrap_or(text.len())
}

/// The name of the placeholder at the start of `text`, and the length of the placeholder in bytes.
fn placeholder(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("{{")?;
    let name_on = inner.trim_start();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let n_name = name_on.find(|c| !is_name(c))?;
    let (name, after) = name_on.split_at(n_name);
    let end = after.trim_start().strip_prefix("}}")?;
    (!name.is_empty()).then(|| (name, text.len() - end.len()))
}
