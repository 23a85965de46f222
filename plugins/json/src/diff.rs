//! `json-diff`: the similarity of two JSON values.

use perpend_plugin::prelude::*;
use perpend_plugin_measures::{Profile, Rendering, closeness, levenshtein, number_of};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The nesting depth below which values are compared as text.
const MAX_DEPTH: usize = 64;

/// The similarity of two JSON values.
pub struct JsonDiff;

/// The comparison.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JsonDiffConfig {
    /// The scorer library to follow where the Python and the JavaScript one differ.
    pub profile: Profile,
    /// Compare text that is JSON as text, without parsing it.
    pub preserve_strings: bool,
    /// The comparison of two texts.
    pub string_scorer: StringScorer,
    /// The comparison of two numbers.
    pub number_scorer: NumberScorer,
}

/// The comparison of two texts.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StringScorer {
    /// Edit distance.
    #[default]
    Levenshtein,
    /// 1 when equal, else 0.
    ExactMatch,
}

/// The comparison of two numbers.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NumberScorer {
    /// Difference, relative to the size of the numbers.
    #[default]
    NumericDiff,
    /// 1 when equal, else 0.
    ExactMatch,
}

impl Evaluator for JsonDiff {
    const ID: &'static str = "json-diff";
    const TITLE: &'static str = "JSON difference";
    const DESCRIPTION: &'static str = "The similarity of output and expected output as JSON: the mean over \
        the members of objects and the positions of arrays; texts by edit distance, numbers by difference.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("json_diff", "1 when equal, 0 when nothing is similar")];
    type Config = JsonDiffConfig;

    fn evaluate(item: &Item, config: &JsonDiffConfig) -> Result<Vec<Score>, EvalError> {
        let output = item.output()?.to_json()?;
        let expected = item.expected_output.as_ref().map_or(Ok(Json::Null), Payload::to_json)?;
        let mut comparison = Comparison { config, worst: None };
        let value = comparison.compare(&output, &expected, &ValuePath::Root);
        let comment = match &comparison.worst {
            Some((path, _)) if value < 1.0 => format!("differs most at {path}"),
            _ => "equal".to_owned(),
        };
        Ok(vec![Score::share("json_diff", value).comment(comment)])
    }
}

/// The path of a part of the values.
enum ValuePath<'a> {
    Root,
    Member(&'a ValuePath<'a>, &'a str),
    Element(&'a ValuePath<'a>, usize),
}

impl ValuePath<'_> {
    fn depth(&self) -> usize {
        match self {
            Self::Root => 0,
            Self::Member(parent, _) | Self::Element(parent, _) => parent.depth() + 1,
        }
    }
}

impl std::fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => f.write_str("$"),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Element(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

struct Comparison<'a> {
    config: &'a JsonDiffConfig,
    /// The first leaf with the lowest score.
    worst: Option<(String, f64)>,
}

impl Comparison<'_> {
    fn compare(&mut self, a: &Json, b: &Json, path: &ValuePath<'_>) -> f64 {
        let (a, b) = (self.parsed(a), self.parsed(b));
        if path.depth() < MAX_DEPTH {
            match (&*a, &*b) {
                (Json::Object(a), Json::Object(b)) => return self.objects(a, b, path),
                (Json::Array(a), Json::Array(b)) => return self.arrays(a, b, path),
                _ => {}
            }
        }
        let score = self.leaf(&a, &b);
        if self.worst.as_ref().is_none_or(|(_, worst)| score < *worst) {
            self.worst = Some((path.to_string(), score));
        }
        score
    }

    /// The parsed value of a text that is a JSON object or array.
    fn parsed<'v>(&self, value: &'v Json) -> Cow<'v, Json> {
        match value {
            Json::Text(text) if !self.config.preserve_strings => match Json::parse(text) {
                Ok(parsed) if parsed.is_container() => Cow::Owned(parsed),
                _ => Cow::Borrowed(value),
            },
            _ => Cow::Borrowed(value),
        }
    }

    fn objects(&mut self, a: &[(String, Json)], b: &[(String, Json)], path: &ValuePath<'_>) -> f64 {
        let (a, b) = (by_name(a), by_name(b));
        let names: BTreeSet<&str> = a.keys().chain(b.keys()).copied().collect();

        let mut sum = 0.0;
        for name in &names {
            sum += self.compare(member(&a, name), member(&b, name), &ValuePath::Member(path, name));
        }
        mean(sum, names.len())
    }

    fn arrays(&mut self, a: &[Json], b: &[Json], path: &ValuePath<'_>) -> f64 {
        let pairs = a.iter().zip(b).enumerate();
        let sum: f64 =
            pairs.map(|(index, (a, b))| self.compare(a, b, &ValuePath::Element(path, index))).sum();
        mean(sum, a.len().max(b.len()))
    }

    fn leaf(&self, a: &Json, b: &Json) -> f64 {
        let profile = self.config.profile;
        match (a, b) {
            (Json::Null, Json::Null) => return 1.0,
            (Json::Null, _) | (_, Json::Null) => return 0.0,
            (Json::Text(a), Json::Text(b)) => return self.texts(a, b),
            _ => {}
        }
        // In Python a boolean is a number, in JavaScript it is compared as text.
        let is_number = |value: &Json| match value {
            Json::Number(_) => true,
            Json::Bool(_) => profile == Profile::Py,
            _ => false,
        };
        if is_number(a)
            && is_number(b)
            && let (Some(a), Some(b)) = (number_of(a, profile), number_of(b, profile))
            && let Some(close) = closeness(a, b)
        {
            return match self.config.number_scorer {
                NumberScorer::NumericDiff => close,
                NumberScorer::ExactMatch => f64::from(u8::from(close == 1.0)),
            };
        }
        let text = Rendering { profile, sort_keys: true, ascii: profile == Profile::Py };
        self.texts(&text.json(a), &text.json(b))
    }

    fn texts(&self, a: &str, b: &str) -> f64 {
        match self.config.string_scorer {
            StringScorer::Levenshtein => levenshtein(a, b, self.config.profile).similarity(),
            StringScorer::ExactMatch => f64::from(u8::from(a == b)),
        }
    }
}

/// The member of this name; null when absent.
fn member<'a>(members: &BTreeMap<&str, &'a Json>, name: &str) -> &'a Json {
    static NULL: Json = Json::Null;
    members.get(name).copied().unwrap_or(&NULL)
}

fn by_name(members: &[(String, Json)]) -> BTreeMap<&str, &Json> {
    members.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

/// The mean; 1 for two empty containers.
fn mean(sum: f64, n_parts: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
    let n_parts = n_parts as f64;
    if n_parts == 0.0 { 1.0 } else { sum / n_parts }
}
