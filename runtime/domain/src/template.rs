//! Prompt templates: `{{ name }}` and nothing else (evaluation.md 3.1).

/// Fills placeholders in one pass. What is inserted is never looked at again; a name for which
/// `value_of` has nothing stays as it stands.
#[must_use]
pub fn fill(template: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        match placeholder(from) {
            Some((name, n_bytes)) => {
                match value_of(name) {
                    Some(value) => filled.push_str(&value),
                    None => filled.push_str(&from[..n_bytes]),
                }
                rest = &from[n_bytes..];
            }
            None => {
                // Not a placeholder here; one may begin at the second brace.
                filled.push('{');
                rest = &from[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// The names of the placeholders, in order of first appearance.
#[must_use]
pub fn names(template: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let from = &rest[at..];
        let n_bytes = placeholder(from).map_or(1, |(name, n_bytes)| {
            if !names.contains(&name) {
                names.push(name);
            }
            n_bytes
        });
        rest = &from[n_bytes..];
    }
    names
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
