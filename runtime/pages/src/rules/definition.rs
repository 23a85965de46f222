//! Definitions of rules as text.

use std::collections::BTreeSet;

use perpend_domain::evaluation::{Mapping, TargetKind};
use perpend_domain::filter::{WrittenFilter, describe_condition};
use perpend_domain::query::{parse, print_condition};
use perpend_views::{DefinitionChange, Text};
use serde_json::Value;

/// Characters of a value in a difference.
const MAX_CHARS: usize = 1_000;

/// The conditions of a filter as terms of the filter language; a condition without a term is described.
pub(super) fn conditions(filter: &WrittenFilter) -> Vec<Text> {
    let term = |(sent, condition)| {
        let term = print_condition(condition);
        Text::from(term.unwrap_or_else(|| describe_condition(sent)))
    };
    filter.iter().map(term).collect()
}

/// The conditions of a filter text for rules of a target, and its problems.
pub(crate) fn conditions_of(text: &str, target: TargetKind) -> (Vec<Value>, Vec<Text>) {
    let parsed = parse(text, target.filter_columns());
    let faults = parsed.terms.iter().filter_map(|term| {
        let fault = term.outcome.as_ref().err()?;
        Some(Text::from(format!("{}: {}", term.text, fault.message)))
    });
    let mut faults: Vec<Text> = faults.collect();
    let mut conditions = Vec::new();
    for condition in &parsed.filter.conditions {
        match condition.to_json() {
            Some(condition) => conditions.push(condition),
            None => faults.push(Text::from(
                "a term selects a position in the trace, which rules do not support",
            )),
        }
    }
    (conditions, faults)
}

/// An entry of a mapping as the editor takes it.
pub(crate) fn mapping_line(entry: &Mapping) -> String {
    let path = entry.json_path.as_ref().map(|path| format!(" {path}"));
    format!("{} {}{}", entry.variable, entry.source, path.unwrap_or_default())
}

/// A rate in percent, without the noise of the multiplication.
pub(super) fn percent(rate: f64) -> String {
    ((rate * 1e8).round() / 1e6).to_string()
}

fn shown(value: Option<&Value>) -> Text {
    let text = match value {
        None | Some(Value::Null) => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => Text::from(format!("{}…", &text[..end])),
        None => Text::from(text),
    }
}

/// The members that differ between two definitions.
pub(crate) fn differences(before: &Value, after: &Value) -> Vec<DefinitionChange> {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        return Vec::new();
    };
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).map(String::as_str).collect();
    let differing = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let change = |name: &str| DefinitionChange {
        member: Text::from(name),
        before: shown(before.get(name)),
        after: shown(after.get(name)),
    };
    differing.map(change).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_members_that_differ_are_listed() {
        let before = json!({ "name": "a", "sampling": 0.5, "settleMs": null });
        let after = json!({ "name": "a", "sampling": 0.25, "settleMs": 5 });
        let all = differences(&before, &after);
        let all: Vec<[&str; 3]> = all
            .iter()
            .map(|each| [each.member.raw(), each.before.raw(), each.after.raw()])
            .collect();
        assert_eq!(all, [["sampling", "0.5", "0.25"], ["settleMs", "none", "5"]]);
    }

    #[test]
    fn a_rate_in_percent_has_no_noise() {
        assert_eq!([0.1, 0.333, 1.0, 0.000_01].map(percent), ["10", "33.3", "100", "0.001"]);
    }
}
