//! The versions of an evaluator: the changes in each, and the difference of any two.

use std::collections::BTreeSet;

use perpend_domain::evaluation::{EvaluatorVersion, Rule, VersionPolicy};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::Digest;
use perpend_telemetry::scores::VersionScores;
use perpend_views::{Diff, DiffChoice, EvaluatorVersionLine, Text, VersionComparison, plural};
use serde_json::{Value, json};

use super::definition::messages;
use super::scores::score_count;
use crate::request::viewer::Viewer;
use crate::rules::definition::mapping_line;

/// Bytes of the values that a difference shows.
const DIFF_BYTES: usize = 64 << 10;
/// Scores counted of a version.
pub(super) const MAX_SCORES: u32 = 10_000;
/// Digits of a fingerprint in the table.
const DIGITS: usize = 12;

/// The parts in which two versions differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedParts {
    /// Parts that the fingerprint covers.
    pub(super) in_fingerprint: Vec<String>,
    /// Parts that it does not cover.
    pub(super) others: Vec<String>,
}

/// Name of a member of the configuration.
fn member_name(version: &EvaluatorVersion, name: &str) -> String {
    match (version.runs_source(), version.is_judge(), name) {
        (true, _, "source") => "source code".to_owned(),
        (true, _, "language") => "language".to_owned(),
        (_, true, "prompt") => "messages".to_owned(),
        (_, true, "prompt_ref") => "reference to the prompt".to_owned(),
        (_, true, "output") => "output definition".to_owned(),
        _ => format!("setting {name}"),
    }
}

pub(super) fn changed_parts(before: &EvaluatorVersion, after: &EvaluatorVersion) -> ChangedParts {
    let mut parts = ChangedParts::default();
    let function = |version: &EvaluatorVersion| {
        format!("{} · {}", version.plugin_name, version.plugin_evaluator)
    };
    if function(before) != function(after) {
        parts.in_fingerprint.push("function".to_owned());
    }
    if before.plugin != after.plugin {
        let versions = format!("{} → {}", before.plugin_version, after.plugin_version);
        parts.in_fingerprint.push(format!("component of the plug-in, {versions}"));
    }
    let empty = serde_json::Map::new();
    let [a, b] = [before, after].map(|version| version.config.as_object().unwrap_or(&empty));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differing = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    parts.in_fingerprint.extend(differing.map(|name| member_name(after, name)));
    if before.slots != after.slots {
        parts.in_fingerprint.push("models and limits".to_owned());
    }
    if before.mapping != after.mapping {
        parts.others.push("mapping".to_owned());
    }
    if before.grants != after.grants {
        parts.others.push("capabilities".to_owned());
    }
    parts
}

fn texts(parts: Vec<String>) -> Vec<Text> {
    parts.into_iter().map(Text::from).collect()
}

/// Titles and values of the parts of a version; `None` for a part that it does not have.
fn values(version: &EvaluatorVersion) -> [(&'static str, Option<Payload>); 7] {
    let text = |text: String| (!text.is_empty()).then_some(Payload::Text(text));
    let is_judge = version.is_judge();
    let messages = if is_judge { messages(&version.config) } else { Vec::new() };
    let messages: Vec<String> = messages
        .into_iter()
        .map(|message| format!("{}:\n{}", message.role, message.content))
        .collect();
    let source = version.source().map(|(_, source)| source.to_owned());
    let mut config = version.config.clone();
    if let Some(members) = config.as_object_mut() {
        members.retain(|name, _| {
            !(is_judge && name == "prompt" || version.runs_source() && name == "source")
        });
    }
    let slots = (!version.slots.is_empty()).then(|| Payload::from_value(json!(version.slots)));
    let mapping: Vec<String> = version.mapping.iter().map(mapping_line).collect();
    let EvaluatorVersion { plugin_name, plugin_version, plugin_evaluator, plugin, .. } = version;
    let function = format!("{plugin_name} {plugin_version} · {plugin_evaluator}\nsha256:{plugin}");
    [
        ("Source code", source.and_then(text)),
        ("Messages", text(messages.join("\n\n"))),
        ("Configuration", (config != Value::Null).then(|| Payload::from_value(config))),
        ("Models and limits", slots),
        ("Function", text(function)),
        ("Mapping", text(mapping.join("\n"))),
        ("Capabilities", text(version.grants.names().join("\n"))),
    ]
}

/// The difference of two versions.
pub(super) fn comparison(a: &EvaluatorVersion, b: &EvaluatorVersion) -> VersionComparison {
    let parts = changed_parts(a, b);
    let pairs = values(a).into_iter().zip(values(b));
    let diffs = pairs.map(|((title, a), (_, b))| {
        (title, Diff::new(a.as_ref(), b.as_ref(), DiffChoice::default(), DIFF_BYTES))
    });
    VersionComparison {
        a: a.number,
        b: b.number,
        is_same_fingerprint: a.fingerprint == b.fingerprint,
        in_fingerprint: texts(parts.in_fingerprint),
        others: texts(parts.others),
        diffs: diffs.filter(|(_, diff)| !diff.is_same()).collect(),
    }
}

/// Numbers of the rules that use a version, as text.
fn users(number: u32, newest: u32, policies: &[VersionPolicy]) -> Vec<String> {
    let live = policies.iter().filter(|policy| policy.live(newest) == number).count() as u64;
    let shadow = policies.iter().filter(|policy| policy.shadow() == Some(number)).count() as u64;
    let live = (0 < live).then(|| plural(live, "rule"));
    let shadow = (0 < shadow).then(|| format!("{}, shadow", plural(shadow, "rule")));
    live.into_iter().chain(shadow).collect()
}

/// First digits of a fingerprint.
fn short(fingerprint: &Digest) -> String {
    fingerprint.to_string().chars().take(DIGITS).collect()
}

/// The lines of versions, newest first. `scores` are their scores, `policies` those of the rules.
pub(super) fn lines(
    viewer: &Viewer,
    href: &str,
    versions: &[EvaluatorVersion],
    (shown, scores): (u32, &[Vec<VersionScores>]),
    policies: &[VersionPolicy],
) -> Vec<EvaluatorVersionLine> {
    let newest = versions.first().map_or(0, |version| version.number);
    let line = |(at, version): (usize, &EvaluatorVersion)| {
        let before = versions.get(at + 1);
        let changed = before.map(|before| {
            let parts = changed_parts(before, version);
            texts(parts.in_fingerprint.into_iter().chain(parts.others).collect())
        });
        let number = version.number;
        EvaluatorVersionLine {
            number,
            href: format!("{href}?version={number}#definition"),
            is_shown: number == shown,
            created_at: version.created_at,
            fingerprint: short(&version.fingerprint),
            changed,
            diff_href: before
                .map(|before| format!("{href}?a={}&b={number}#differences", before.number)),
            users: users(number, newest, policies),
            scores: score_count(scores.get(at..=at).unwrap_or_default(), MAX_SCORES),
            scores_href: format!("{}/scores?fingerprint={}", viewer.base(), version.fingerprint),
        }
    };
    versions.iter().enumerate().map(line).collect()
}

/// The policies of the rules for an evaluator, from the assignments of these rules.
pub(super) fn policies(rules: &[(Rule, usize)]) -> Vec<VersionPolicy> {
    let policies = rules.iter().filter_map(|(rule, at)| rule.assignments.get(*at));
    policies.map(|assignment| assignment.version).collect()
}

#[cfg(test)]
mod tests {
    use perpend_domain::ids::EvaluatorVersionId;
    use perpend_domain::plugin::Grants;
    use perpend_domain::time::Timestamp;

    use super::*;

    fn version(number: u32, config: Value) -> EvaluatorVersion {
        EvaluatorVersion {
            id: EvaluatorVersionId::new("version").unwrap(),
            number,
            plugin: Digest::of(b""),
            plugin_name: "perpend/python".to_owned(),
            plugin_version: "1.0.0".to_owned(),
            plugin_evaluator: "code".to_owned(),
            config,
            mapping: Vec::new(),
            grants: Grants::NONE,
            slots: Vec::new(),
            fingerprint: Digest::of(&number.to_be_bytes()),
            created_at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn the_parts_of_the_fingerprint_that_differ_are_named() {
        let before = version(1, json!({ "source": "a", "x": 1, "y": 2 }));
        let mut after = version(2, json!({ "source": "b", "x": 1, "z": 2 }));
        after.plugin = Digest::of(b"other");
        after.plugin_version = "1.1.0".to_owned();
        after.grants = Grants::ALL;
        let parts = changed_parts(&before, &after);
        let expected =
            ["component of the plug-in, 1.0.0 → 1.1.0", "source code", "setting y", "setting z"];
        assert_eq!(parts.in_fingerprint, expected);
        assert_eq!(parts.others, ["capabilities"]);
        assert_eq!(changed_parts(&before, &before), ChangedParts::default());
        let both = comparison(&before, &after);
        let titles: Vec<&str> = both.diffs.iter().map(|(title, _)| *title).collect();
        assert_eq!(titles, ["Source code", "Configuration", "Function", "Capabilities"]);
        assert!(comparison(&before, &before).diffs.is_empty());
    }

    #[test]
    fn a_version_is_used_live_and_as_shadow() {
        let policies = [
            VersionPolicy::Latest,
            VersionPolicy::Pinned(1),
            VersionPolicy::Shadow(3),
            VersionPolicy::Shadow(1),
        ];
        assert_eq!(users(3, 3, &policies), ["2 rules", "1 rule, shadow"]);
        assert_eq!(users(2, 3, &policies), ["1 rule"]);
        assert_eq!(users(1, 3, &policies), ["1 rule", "1 rule, shadow"]);
    }
}
