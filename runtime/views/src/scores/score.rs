//! Scores with their origin, and outcomes of rules without a score.

use std::collections::BTreeMap;

use crate::markup::{Html, Text, encode};
use perpend_domain::score::{ScoreSource, ScoreValue};
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::format::{clock, count, exact_number, number};
use crate::layout::shell::{evaluator_href, execution_href, rule_href};
use crate::values::content::{display_text, json_without_media};

/// Colour of a value or state. The text always carries the same information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Passed or done.
    Good,
    /// Failed.
    Bad,
    /// Pending.
    Waiting,
    /// Neutral: a number, a category, or a rule that did not apply.
    Plain,
}

impl Tone {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Waiting => "waiting",
            Self::Plain => "plain",
        }
    }
}

/// The value as text, cut to `max` characters.
pub(crate) fn shown(value: &ScoreValue, max: usize) -> (Text, Tone) {
    let cut = |text: &str| {
        let mut out: String = text.chars().take(max).collect();
        if out.len() < text.len() {
            out.push('…');
        }
        out
    };
    match value {
        ScoreValue::Numeric(n) => (Text::from(number(*n)), Tone::Plain),
        ScoreValue::Boolean(true) => (Text::from("true"), Tone::Good),
        ScoreValue::Boolean(false) => (Text::from("false"), Tone::Bad),
        ScoreValue::Categorical(text) => (Text::from(cut(text)), Tone::Plain),
        ScoreValue::Text(text) | ScoreValue::Correction(text) => {
            (Text::lines(cut(text)), Tone::Plain)
        }
    }
}

/// The value in files, without its type.
#[must_use]
pub fn score_value(value: &ScoreValue) -> Value {
    match value {
        ScoreValue::Numeric(number) => Value::from(*number),
        ScoreValue::Boolean(truth) => Value::from(*truth),
        ScoreValue::Categorical(text) | ScoreValue::Text(text) | ScoreValue::Correction(text) => {
            Value::from(text.as_str())
        }
    }
}

/// URL fragment of the card of a score.
#[must_use]
pub fn anchor(id: &str) -> String {
    format!("#score-{}", encode(id))
}

/// Maximum characters of score metadata.
const METADATA: usize = 20_000;

/// Digits of a shortened fingerprint.
const FINGERPRINT: usize = 12;

/// Aggregates several scores with one name: the mean of numbers, the number of true values, or the most frequent
/// category.
#[must_use]
pub fn aggregate(values: &[&ScoreValue]) -> Option<Text> {
    let n = values.len();
    if let [one] = values {
        return Some(shown(one, 24).0);
    }
    let truths: Vec<bool> = values.iter().filter_map(|value| truth(value)).collect();
    if 0 < n && truths.len() == n {
        let n_true = truths.iter().filter(|truth| **truth).count();
        return Some(Text::from(format!("{n_true} of {n} true")));
    }
    let numbers = values.iter().filter_map(|value| match value {
        ScoreValue::Numeric(number) => Some(*number),
        ScoreValue::Boolean(truth) => Some(f64::from(u8::from(*truth))),
        _ => None,
    });
    let numbers: Vec<f64> = numbers.collect();
    if !numbers.is_empty() {
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        return Some(Text::from(format!("{} (n = {})", number(mean), numbers.len())));
    }
    let mut n_by_text: BTreeMap<Text, usize> = BTreeMap::new();
    for value in values {
        *n_by_text.entry(shown(value, 24).0).or_default() += 1;
    }
    // On a tie, the first by name.
    let top = n_by_text.iter().rev().max_by_key(|(_, n)| **n);
    top.map(|(text, n_alike)| Text::from(format!("{} {n_alike} of {n}", text.raw())))
}

const fn truth(value: &ScoreValue) -> Option<bool> {
    match value {
        ScoreValue::Boolean(truth) => Some(*truth),
        _ => None,
    }
}

/// Name of a rule or evaluator, with a link to its page.
#[derive(Clone, Debug)]
pub struct ResourceLink {
    /// Name; the id if it was deleted.
    pub name: Text,
    /// Id; absent if it was deleted.
    pub id: Option<String>,
}

impl ResourceLink {
    /// An existing rule or evaluator.
    #[must_use]
    pub fn new(name: &str, id: &str) -> Self {
        Self { name: Text::from(name), id: Some(id.to_owned()) }
    }

    /// A deleted rule or evaluator.
    #[must_use]
    pub fn deleted(name: impl Into<Text>) -> Self {
        Self { name: name.into(), id: None }
    }

    /// URL of its page. `kind` is `rule` or `evaluator`.
    pub(crate) fn href(&self, base: &str, kind: &str) -> Option<String> {
        let id = self.id.as_ref()?;
        Some(match kind {
            "rule" => rule_href(base, id),
            _ => evaluator_href(base, id),
        })
    }
}

/// Origin of an evaluator score.
#[derive(Clone, Debug)]
pub struct OriginView {
    /// The evaluator.
    pub evaluator: ResourceLink,
    /// Version number of the evaluator; unknown if it was deleted.
    pub version: Option<u32>,
    /// `vendor/name version · evaluator` of the plug-in, if known.
    pub plugin: Option<Text>,
    /// Names and values of settings and models.
    pub settings: Vec<(Text, Text)>,
    /// The rule.
    pub rule: ResourceLink,
    /// Fingerprint in hex.
    pub fingerprint: String,
    /// Id of the execution.
    pub execution: Text,
    /// Sample rate of the rule, 0 to 1.
    pub sampling: f64,
}

impl OriginView {
    /// URL of the list of scores with the same fingerprint.
    pub(crate) fn same_href(&self, base: &str) -> String {
        format!("{base}/scores?fingerprint={}", encode(&self.fingerprint))
    }

    /// URL of the page of the execution.
    pub(crate) fn execution_href(&self, base: &str) -> String {
        execution_href(base, self.execution.raw())
    }

    pub(crate) fn short_fingerprint(&self) -> String {
        let begins = self.fingerprint.get(..FINGERPRINT);
        begins.map_or_else(|| self.fingerprint.clone(), |begins| format!("{begins}…"))
    }

    pub(crate) fn sampling_text(&self) -> String {
        format!("{} %", number(self.sampling * 100.0))
    }
}

/// The details of a score.
#[derive(Clone, Debug)]
pub struct ScoreView {
    /// URL-encoded id.
    pub(crate) id: String,
    pub(crate) name: Text,
    pub(crate) value: Text,
    pub(crate) tone: Tone,
    pub(crate) source: &'static str,
    /// Name of the person who gave it.
    pub(crate) author: Option<Text>,
    pub(crate) at: String,
    pub(crate) at_iso: String,
    pub(crate) comment: Option<Text>,
    /// As indented JSON.
    pub(crate) metadata: Option<Text>,
    pub(crate) origin: Option<OriginView>,
}

impl ScoreView {
    /// A score without id, comment, metadata and origin.
    #[must_use]
    pub fn new(name: &str, value: &ScoreValue, source: ScoreSource, at: Timestamp) -> Self {
        let (text, tone) = shown(value, 500);
        Self {
            id: String::new(),
            name: Text::from(name),
            value: match value {
                ScoreValue::Numeric(number) => Text::from(exact_number(*number)),
                _ => text,
            },
            tone,
            source: match source {
                ScoreSource::Api => "sent over the API",
                ScoreSource::Annotation => "given by a person",
                ScoreSource::Eval => "evaluated",
            },
            author: None,
            at: clock(at),
            at_iso: at.to_string(),
            comment: None,
            metadata: None,
            origin: None,
        }
    }

    /// Sets the metadata.
    #[must_use]
    pub fn metadata(mut self, metadata: &serde_json::Map<String, serde_json::Value>) -> Self {
        let json = (!metadata.is_empty()).then(|| json_without_media(metadata));
        self.metadata = json.flatten().map(|json| {
            let mut shown: String = json.chars().take(METADATA).collect();
            if shown.len() < json.len() {
                shown.push_str("\n…");
            }
            Text::lines(shown)
        });
        self
    }

    /// Sets the id, which is the anchor of its card.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = encode(id);
        self
    }

    /// Sets the name of the person who gave it.
    #[must_use]
    pub fn author(mut self, name: Option<&str>) -> Self {
        self.author = name.map(Text::from);
        self
    }

    /// Sets the comment.
    #[must_use]
    pub fn comment(mut self, comment: Option<&str>) -> Self {
        self.comment = comment.filter(|text| !text.is_empty()).map(display_text);
        self
    }

    /// Sets the origin.
    #[must_use]
    pub fn origin(mut self, origin: Option<OriginView>) -> Self {
        self.origin = origin;
        self
    }
}

/// The outcome of a rule for the displayed target.
#[derive(Clone, Debug)]
pub struct RuleOutcome {
    /// The rule.
    pub rule: ResourceLink,
    /// Evaluators with this outcome.
    pub evaluators: Vec<ResourceLink>,
    /// One or two words: `scored`, `not sampled`, `waiting`.
    pub state: &'static str,
    /// Colour of the state.
    pub tone: Tone,
    /// Explanation in a sentence.
    pub sentence: Text,
    /// Action of the form that requeues a failed execution; absent without such an execution or permission.
    pub requeue: Option<String>,
    /// URL of the page of its execution, if any.
    pub execution_href: Option<String>,
    /// Names of its scores, if known and different from the name of the rule.
    pub score_names: Vec<Text>,
    /// Labels and values, such as the sampling number.
    pub facts: Vec<(&'static str, Html)>,
}

impl RuleOutcome {
    /// Whether to show the evaluators: not for a single one with the name of the rule.
    pub(crate) fn names_evaluators(&self) -> bool {
        match self.evaluators.as_slice() {
            [one] => one.name != self.rule.name,
            more => !more.is_empty(),
        }
    }
}

/// The range of rules whose outcomes a page shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleRange {
    /// Number of rules before the range.
    pub from: usize,
    /// Number of rules in the range.
    pub n: usize,
    /// Number of all rules for such targets.
    pub n_all: usize,
}

impl RuleRange {
    /// Maximum number of rules in a range.
    pub const LIMIT: usize = 50;

    /// `Rules 51–100 of 120 shown`, unless all are shown.
    pub(crate) fn label(self) -> Option<String> {
        let [first, last, all] =
            [self.from + 1, self.from + self.n, self.n_all].map(|n| count(n as u64));
        (self.n < self.n_all).then(|| format!("Rules {first}–{last} of {all} shown"))
    }

    /// Links to the other ranges. `address` is the URL of the page.
    pub(crate) fn page_links(self, address: &str) -> Vec<(&'static str, String)> {
        let at = |from| format!("{address}&rules={from}#pane-scores");
        let before = self.from.saturating_sub(Self::LIMIT);
        let behind = self.from + self.n;
        let page_links = [
            (0 < self.from).then(|| ("Earlier rules", at(before))),
            (behind < self.n_all).then(|| ("More rules", at(behind))),
        ];
        page_links.into_iter().flatten().collect()
    }

    /// The range as a further query parameter.
    pub(crate) fn query(self) -> String {
        match self.from {
            0 => String::new(),
            from => format!("&rules={from}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_by_their_kind() {
        let long = ScoreValue::Categorical("a".repeat(40));
        assert_eq!(shown(&long, 24).0.raw().chars().count(), 25);
        assert_eq!(shown(&ScoreValue::Boolean(false), 24).1, Tone::Bad);
        assert_eq!(shown(&ScoreValue::Numeric(0.5), 24).0, Text::from("0.5"));
    }

    #[test]
    fn a_card_has_all_digits_of_a_number_and_labels_in_place_of_media() {
        let image = format!("see data:image/png;base64,iVBORw0KGgo{}", "A".repeat(101));
        let metadata = serde_json::json!({ "shot": image, "n": 1 });
        let value = ScoreValue::Numeric(0.333_333_333);
        let card = ScoreView::new("n", &value, ScoreSource::Api, Timestamp::from_millis(0))
            .comment(Some(&image))
            .metadata(metadata.as_object().unwrap());
        assert_eq!(card.value.raw(), "0.333333333");
        let [comment, metadata] = [card.comment, card.metadata].map(Option::unwrap);
        assert!(comment.raw().starts_with("see [image/png"), "{comment:?}");
        let shown = metadata.raw();
        assert!(shown.contains("\"see [image/png") && shown.contains("\"n\": 1"), "{shown}");
    }

    #[test]
    fn other_ranges_of_rules_are_linked() {
        let range = |from, n, n_all| RuleRange { from, n, n_all };
        assert!(range(0, 50, 50).label().is_none() && range(0, 50, 50).page_links("?x").is_empty());
        let middle = range(50, 50, 120);
        assert_eq!(middle.label().unwrap(), "Rules 51–100 of 120 shown");
        let page_links = [
            ("Earlier rules", "?x&rules=0#pane-scores".to_owned()),
            ("More rules", "?x&rules=100#pane-scores".to_owned()),
        ];
        assert_eq!(middle.page_links("?x"), page_links);
        assert_eq!(range(100, 20, 120).page_links("?x").len(), 1);
    }

    #[test]
    fn scores_with_one_name_are_aggregated() {
        let text = |values: &[ScoreValue]| {
            let values: Vec<&ScoreValue> = values.iter().collect();
            aggregate(&values).map(|text| text.raw().to_owned())
        };
        let word = |text: &str| ScoreValue::Categorical(text.to_owned());
        let (yes, no) = (ScoreValue::Boolean(true), ScoreValue::Boolean(false));
        assert_eq!(text(&[]), None);
        assert_eq!(text(std::slice::from_ref(&yes)).unwrap(), "true");
        assert_eq!(text(&[yes, no]).unwrap(), "1 of 2 true");
        let numbers = [ScoreValue::Numeric(0.5), ScoreValue::Numeric(1.0)];
        assert_eq!(text(&numbers).unwrap(), "0.75 (n = 2)");
        let words = ["d", "b", "a", "b", "c"].map(word);
        assert_eq!(text(&words).unwrap(), "b 2 of 5");
        let words = ["good", "bad"].map(word);
        assert_eq!(text(&words).unwrap(), "bad 1 of 2");
    }
}
