//! `contains-…`, `includes`, `starts-with` and `ends-with`: parts of a text.

use crate::verdict::{quoted, verdict};
use crate::words::folded_if;
use perpend_plugin::prelude::*;

/// The terms to find.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TermsConfig {
    /// The terms. Default: the expected output, or its elements.
    pub terms: Option<Vec<String>>,
    /// Ignore the difference between upper and lower case.
    pub ignore_case: bool,
}

/// The terms in the output, and the missing ones.
struct Search {
    found: Vec<String>,
    missing: Vec<String>,
}

impl Search {
    fn of(item: &Item, config: &TermsConfig) -> Result<Self, EvalError> {
        let terms = match &config.terms {
            Some(terms) => terms.clone(),
            None => item.targets()?,
        };
        if terms.is_empty() {
            return Err(EvalError::not_applicable("the list of terms is empty"));
        }
        let output = folded_if(config.ignore_case, item.output_text()?);
        let (found, missing) = terms
            .into_iter()
            .partition(|term| output.contains(&*folded_if(config.ignore_case, term)));
        Ok(Self { found, missing })
    }

    fn score(self, name: &str, value: f64) -> Vec<Score> {
        let (n_found, n_terms) = (self.found.len(), self.found.len() + self.missing.len());
        let score = Score::share(name, value)
            .comment(format!("{n_found} of {n_terms} terms found"))
            .with("found", self.found)
            .with("missing", self.missing);
        vec![score]
    }
}

/// The share of terms that the output contains.
pub struct ContainsAll;

impl Evaluator for ContainsAll {
    const ID: &'static str = "contains-all";
    const TITLE: &'static str = "Contains all";
    const DESCRIPTION: &'static str = "The share of the given terms that the output contains.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("contains_all", "the share of terms found")];
    type Config = TermsConfig;

    fn evaluate(item: &Item, config: &TermsConfig) -> Result<Vec<Score>, EvalError> {
        let search = Search::of(item, config)?;
        let n_terms = search.found.len() + search.missing.len();
        #[expect(clippy::cast_precision_loss, reason = "a list of terms is short")]
        let share = search.found.len() as f64 / n_terms as f64;
        Ok(search.score("contains_all", share))
    }
}

/// 1 when the output contains at least one of the terms.
pub struct ContainsAny;

impl Evaluator for ContainsAny {
    const ID: &'static str = "contains-any";
    const TITLE: &'static str = "Contains any";
    const DESCRIPTION: &'static str =
        "1 when the output contains at least one of the terms, else 0.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("contains_any", "1 when any term was found")];
    type Config = TermsConfig;

    fn evaluate(item: &Item, config: &TermsConfig) -> Result<Vec<Score>, EvalError> {
        let search = Search::of(item, config)?;
        let holds = !search.found.is_empty();
        Ok(search.score("contains_any", f64::from(u8::from(holds))))
    }
}

/// 1 when the output contains none of the terms.
pub struct ContainsNone;

impl Evaluator for ContainsNone {
    const ID: &'static str = "contains-none";
    const TITLE: &'static str = "Contains none";
    const DESCRIPTION: &'static str = "1 when the output contains none of the terms, else 0.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("contains_none", "1 when no term was found")];
    type Config = TermsConfig;

    fn evaluate(item: &Item, config: &TermsConfig) -> Result<Vec<Score>, EvalError> {
        let search = Search::of(item, config)?;
        let holds = search.found.is_empty();
        Ok(search.score("contains_none", f64::from(u8::from(holds))))
    }
}

/// 1 when a target is part of the output.
pub struct Includes;

/// The comparison.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IncludesConfig {
    /// Ignore the difference between upper and lower case.
    pub ignore_case: bool,
}

impl Default for IncludesConfig {
    fn default() -> Self {
        Self { ignore_case: true }
    }
}

impl Evaluator for Includes {
    const ID: &'static str = "includes";
    const TITLE: &'static str = "Includes";
    const DESCRIPTION: &'static str =
        "1 when the expected output, or any element of it, is part of the output, else 0.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("includes", "1 when a target is part of the output")];
    type Config = IncludesConfig;

    fn evaluate(item: &Item, config: &IncludesConfig) -> Result<Vec<Score>, EvalError> {
        let output = folded_if(config.ignore_case, item.output_text()?);
        let targets = item.targets()?;
        let found =
            targets.iter().find(|target| output.contains(&*folded_if(config.ignore_case, target)));
        Ok(vec![verdict("includes", found.is_some(), reason(found))])
    }
}

/// The text at the beginning or end of the output.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EndConfig {
    /// The text to find. Default: the expected output, or any element of it.
    pub text: Option<String>,
    /// Ignore the difference between upper and lower case.
    pub ignore_case: bool,
    /// Ignore white space around the output.
    pub trim: bool,
}

impl EndConfig {
    fn first_target(
        &self,
        item: &Item,
        test: fn(&str, &str) -> bool,
    ) -> Result<Option<String>, EvalError> {
        let output = item.output_text()?;
        let output = if self.trim { output.trim() } else { output };
        let output = folded_if(self.ignore_case, output);
        let targets = match &self.text {
            Some(text) => vec![text.clone()],
            None => item.targets()?,
        };
        let holds = |target: &String| test(&output, &folded_if(self.ignore_case, target));
        Ok(targets.into_iter().find(holds))
    }
}

/// 1 when the output begins with a text.
pub struct StartsWith;

impl Evaluator for StartsWith {
    const ID: &'static str = "starts-with";
    const TITLE: &'static str = "Starts with";
    const DESCRIPTION: &'static str = "1 when the output begins with the text, else 0.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("starts_with", "1 when the output begins with the text")];
    type Config = EndConfig;

    fn evaluate(item: &Item, config: &EndConfig) -> Result<Vec<Score>, EvalError> {
        let found = config.first_target(item, |output, text| output.starts_with(text))?;
        Ok(vec![verdict("starts_with", found.is_some(), reason(found.as_ref()))])
    }
}

/// 1 when the output ends with a text.
pub struct EndsWith;

impl Evaluator for EndsWith {
    const ID: &'static str = "ends-with";
    const TITLE: &'static str = "Ends with";
    const DESCRIPTION: &'static str = "1 when the output ends with the text, else 0.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("ends_with", "1 when the output ends with the text")];
    type Config = EndConfig;

    fn evaluate(item: &Item, config: &EndConfig) -> Result<Vec<Score>, EvalError> {
        let found = config.first_target(item, |output, text| output.ends_with(text))?;
        Ok(vec![verdict("ends_with", found.is_some(), reason(found.as_ref()))])
    }
}

fn reason(found: Option<&String>) -> String {
    match found {
        Some(target) => format!("{} was found", quoted(target)),
        None => "no target was found".to_owned(),
    }
}
