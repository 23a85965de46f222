//! Validation of scores, which are untrusted input.

use perpend_domain::plugin::{
    EvaluatorInfo, Failure, FailureClass, Limits, PluginScore, PluginScoreValue, ScoreDomain,
};
use serde_json::Value;

use crate::state::{cut, failure};

const MAX_NAME_BYTES: usize = 256;
const MAX_COMMENT_BYTES: usize = 64 << 10;
const MAX_METADATA_BYTES: usize = 256 << 10;
const MAX_NESTING: usize = 64;

/// Returns the scores with truncated comments.
///
/// # Errors
/// The first violation.
pub(crate) fn check_scores(
    mut scores: Vec<PluginScore>,
    evaluator: &EvaluatorInfo,
    limits: &Limits,
) -> Result<Vec<PluginScore>, Failure> {
    if scores.len() > limits.n_scores as usize {
        let message = format!("{} scores, the limit is {}", scores.len(), limits.n_scores);
        return Err(failure(FailureClass::InvalidResult, message));
    }
    for score in &mut scores {
        check(score, evaluator).map_err(|problem| {
            let mut name = score.name.clone();
            cut(&mut name, 80);
            failure(FailureClass::InvalidResult, format!("score {name:?}: {problem}"))
        })?;
        if let Some(comment) = &mut score.comment {
            cut(comment, MAX_COMMENT_BYTES);
        }
    }
    let n_bytes: usize = scores.iter().map(size).sum();
    if n_bytes >= limits.output_bytes as usize {
        let message =
            format!("the scores have {n_bytes} bytes; the limit is {}", limits.output_bytes);
        return Err(failure(FailureClass::OutputLimit, message));
    }
    Ok(scores)
}

fn size(score: &PluginScore) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    score.name.len() + text(&score.comment) + text(&score.metadata) + text(&score.observation_id)
}

fn check(score: &PluginScore, evaluator: &EvaluatorInfo) -> Result<(), String> {
    if score.name.trim().is_empty() || MAX_NAME_BYTES < score.name.len() {
        return Err(format!("a name has 1 to {MAX_NAME_BYTES} bytes"));
    }
    if score.name.chars().any(char::is_control) {
        return Err("a name has no control characters".into());
    }
    if let Some(id) = &score.observation_id
        && (id.is_empty() || MAX_NAME_BYTES < id.len())
    {
        return Err(format!("an observation id has 1 to {MAX_NAME_BYTES} bytes"));
    }
    match &score.value {
        PluginScoreValue::Numeric(number) if !number.is_finite() => {
            return Err(format!("{number} is not a finite number"));
        }
        PluginScoreValue::Categorical(text) if MAX_NAME_BYTES < text.len() => {
            return Err(format!("a category has at most {MAX_NAME_BYTES} bytes"));
        }
        _ => {}
    }
    if let Some(metadata) = &score.metadata {
        check_metadata(metadata)?;
    }
    match evaluator.scores.iter().find(|spec| spec.name == score.name) {
        Some(spec) => check_domain(&score.value, &spec.domain),
        None if evaluator.dynamic_scores => Ok(()),
        None => Err("the name is not declared by the evaluator".into()),
    }
}

fn check_domain(value: &PluginScoreValue, domain: &ScoreDomain) -> Result<(), String> {
    match (value, domain) {
        (PluginScoreValue::Numeric(number), ScoreDomain::Numeric { min, max, .. }) => {
            if min.is_some_and(|min| *number < min) || max.is_some_and(|max| max < *number) {
                let end = |end: &Option<f64>| end.map_or("any".to_owned(), |end| end.to_string());
                return Err(format!("{number} is outside {} to {}", end(min), end(max)));
            }
            Ok(())
        }
        (PluginScoreValue::Boolean(_), ScoreDomain::Boolean) => Ok(()),
        (PluginScoreValue::Categorical(text), ScoreDomain::Categorical(allowed)) => {
            if allowed.is_empty() || allowed.contains(text) {
                Ok(())
            } else {
                Err(format!("the category {text:?} is not declared"))
            }
        }
        (value, domain) => {
            let value = match value {
                PluginScoreValue::Numeric(_) => "a number",
                PluginScoreValue::Boolean(_) => "a boolean",
                PluginScoreValue::Categorical(_) => "a category",
            };
            let domain = match domain {
                ScoreDomain::Numeric { .. } => "numeric",
                ScoreDomain::Boolean => "boolean",
                ScoreDomain::Categorical(_) => "categorical",
            };
            Err(format!("{value}, and the score is declared {domain}"))
        }
    }
}

fn check_metadata(json: &str) -> Result<(), String> {
    if MAX_METADATA_BYTES < json.len() {
        return Err("metadata has at most 256 KiB".into());
    }
    match serde_json::from_str::<Value>(json) {
        Ok(value @ Value::Object(_)) if nesting(&value) <= MAX_NESTING => Ok(()),
        Ok(Value::Object(_)) => Err(format!("metadata is nested deeper than {MAX_NESTING}")),
        Ok(_) => Err("metadata is not a JSON object".into()),
        Err(error) => Err(format!("metadata is not JSON: {error}")),
    }
}

/// Depth of nesting; at most 128, the limit of serde.
fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}
