//! Regular expressions. The engine does not backtrack: matching takes linear time, and look-around and
//! back-references are not supported.

use std::borrow::Cow;

use crate::size::bounds_problem;
use crate::verdict::{quoted, verdict};
use crate::words::folded_if;
use perpend_plugin::prelude::*;

/// The maximum size of a compiled expression, in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 20;

fn build(pattern: &str, ignore_case: bool) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(pattern)
        .case_insensitive(ignore_case)
        .size_limit(MAX_COMPILED_BYTES)
        .build()
}

fn compile(pattern: &str, ignore_case: bool) -> Result<regex::Regex, EvalError> {
    build(pattern, ignore_case).map_err(|why| EvalError::invalid_config(format!("pattern: {why}")))
}

/// The problems of an expression, reported when it is saved.
fn problems(pattern: &str, ignore_case: bool) -> Vec<ConfigProblem> {
    let failed = build(pattern, ignore_case).err();
    let problem = failed.map(|why| ConfigProblem::at("/pattern", why.to_string()));
    problem.into_iter().collect()
}

/// 1 when the output matches an expression.
pub struct Regex;

/// The expression.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegexConfig {
    /// A regular expression. Look-around and back-references are not supported.
    pub pattern: String,
    /// Ignore the difference between upper and lower case.
    #[serde(default)]
    pub ignore_case: bool,
    /// Require that the expression matches the whole output, not only a part of it.
    #[serde(default)]
    pub full_match: bool,
}

impl RegexConfig {
    fn expression(&self) -> Cow<'_, str> {
        match self.full_match {
            true => format!(r"\A(?:{})\z", self.pattern).into(),
            false => self.pattern.as_str().into(),
        }
    }
}

impl Evaluator for Regex {
    const ID: &'static str = "regex";
    const TITLE: &'static str = "Regular expression";
    const DESCRIPTION: &'static str = "1 when the output matches the expression, else 0.";
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("regex", "1 when the output matches the expression")];
    type Config = RegexConfig;

    fn evaluate(item: &Item, config: &RegexConfig) -> Result<Vec<Score>, EvalError> {
        let output = item.output_text()?;
        let expression = compile(&config.expression(), config.ignore_case)?;
        let score = match expression.find(output) {
            Some(found) => verdict("regex", true, format!("matched {}", quoted(found.as_str()))),
            None => verdict("regex", false, "no match"),
        };
        Ok(vec![score])
    }

    fn check_config(config: &RegexConfig) -> Vec<ConfigProblem> {
        problems(&config.expression(), config.ignore_case)
    }
}

/// 1 when the captured text of an expression is a target.
pub struct Pattern;

/// The expression and its groups.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatternConfig {
    /// A regular expression with at least one group. Look-around and back-references are not supported.
    pub pattern: String,
    /// Ignore the difference between upper and lower case.
    #[serde(default = "yes")]
    pub ignore_case: bool,
    /// Require that every group that participates in the match equals a target, not only one of them.
    #[serde(default)]
    pub match_all: bool,
}

fn yes() -> bool {
    true
}

impl Evaluator for Pattern {
    const ID: &'static str = "pattern";
    const TITLE: &'static str = "Captured answer";
    const DESCRIPTION: &'static str = "1 when a group of the first match of the expression equals the \
        expected output, or any element of it; else 0.";
    const NEEDS: Parts = Parts::OUTPUT_AND_EXPECTED;
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("pattern", "1 when the captured text is a target")];
    type Config = PatternConfig;

    fn evaluate(item: &Item, config: &PatternConfig) -> Result<Vec<Score>, EvalError> {
        let (output, targets) = (item.output_text()?, item.targets()?);
        let expression = compile(&config.pattern, config.ignore_case)?;
        let Some(captures) = expression.captures(output) else {
            return Ok(vec![verdict("pattern", false, "no match").with("no_answer", true)]);
        };
        let groups: Vec<&str> = captures.iter().skip(1).flatten().map(|m| m.as_str()).collect();
        let is_target = |group: &str| {
            let group = folded_if(config.ignore_case, group);
            targets.iter().any(|target| folded_if(config.ignore_case, target) == group)
        };
        let answer: Option<String> = if config.match_all {
            let all = !groups.is_empty() && groups.iter().all(|group| is_target(group));
            all.then(|| targets.concat())
        } else {
            groups.iter().find(|group| is_target(group)).map(|group| (*group).to_owned())
        };
        let holds = answer.is_some();
        // A single captured text is the answer, even if it is wrong.
        let only = (!config.match_all && captures.len() == 2).then(|| groups.first()).flatten();
        let answer = answer.or(only.map(|group| (*group).to_owned()));
        let reason = answer.as_deref().map_or_else(
            || "no captured text is a target".to_owned(),
            |answer| format!("captured {}", quoted(answer)),
        );
        Ok(vec![verdict("pattern", holds, reason).with("answer", answer)])
    }

    fn check_config(config: &PatternConfig) -> Vec<ConfigProblem> {
        match build(&config.pattern, config.ignore_case) {
            Ok(expression) if expression.captures_len() == 1 => {
                let message =
                    "`pattern` must have at least one group in (parentheses); its text is compared";
                vec![ConfigProblem::at("/pattern", message)]
            }
            _ => problems(&config.pattern, config.ignore_case),
        }
    }
}

/// 1 when the number of matches is within the bounds.
pub struct RegexCount;

/// The expression and the bounds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegexCountConfig {
    /// A regular expression. Look-around and back-references are not supported.
    pub pattern: String,
    /// Ignore the difference between upper and lower case.
    #[serde(default)]
    pub ignore_case: bool,
    /// The minimum number of matches that passes.
    #[serde(default)]
    pub min: usize,
    /// The maximum number of matches that passes.
    #[serde(default)]
    pub max: Option<usize>,
}

impl Evaluator for RegexCount {
    const ID: &'static str = "regex-count";
    const TITLE: &'static str = "Number of matches";
    const DESCRIPTION: &'static str =
        "1 when the number of matches in the output is within the bounds, else 0.";
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("regex_count", "1 when the number of matches is within the bounds")];
    type Config = RegexCountConfig;

    fn evaluate(item: &Item, config: &RegexCountConfig) -> Result<Vec<Score>, EvalError> {
        let expression = compile(&config.pattern, config.ignore_case)?;
        let count = expression.find_iter(item.output_text()?).count();
        let holds = config.min <= count && config.max.is_none_or(|max| count <= max);
        Ok(vec![verdict("regex_count", holds, format!("{count} matches")).with("count", count)])
    }

    fn check_config(config: &RegexCountConfig) -> Vec<ConfigProblem> {
        let bounds = bounds_problem(Some(config.min), config.max);
        let problems = problems(&config.pattern, config.ignore_case).into_iter();
        problems.chain(bounds).collect()
    }
}
