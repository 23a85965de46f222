//! The variables of the messages of a form.

use perpend_domain::template;
use perpend_views::{JudgeFields, JudgeMessage, Text};

/// Variables that are filled without a mapping: the parts of an item.
pub(super) const PARTS: [&str; 4] = ["input", "output", "expected_output", "metadata"];
/// Variables that are filled whatever the mapping is.
const UNMAPPED: [&str; 2] = ["tool_calls", "experiment_item_metadata"];

/// The names of the variables of messages, in order of first appearance.
pub(super) fn names(messages: &[JudgeMessage]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in messages.iter().flat_map(|message| template::names(&message.content)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The variables of the messages, each with whether it is filled: by the mapping, or without one.
pub(super) fn variables(fields: &JudgeFields) -> Vec<(Text, bool)> {
    let mapped = fields.mapping.lines().filter_map(|line| line.split_whitespace().next());
    let mapped: Vec<&str> = mapped.collect();
    let known: &[&str] = if mapped.is_empty() { &PARTS } else { &mapped };
    let is_filled = |name: &str| known.contains(&name) || UNMAPPED.contains(&name);
    let names = names(&fields.messages).into_iter();
    names.map(|name| (Text::from(name), is_filled(name))).collect()
}
