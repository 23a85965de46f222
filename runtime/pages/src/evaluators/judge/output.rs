//! The fields of the output of a judge, and the members of the configuration that they mean.

use perpend_views::JudgeFields;
use serde_json::{Map, Value, json};

use super::faults::{Faults, number_text};
use crate::request::forms::as_submitted;

/// Several questions, as JSON.
pub(super) const QUESTIONS: &str = "QUESTIONS";
/// Choices with their scores.
const CHOICES: &str = "CHOICES";
const TYPES: [&str; 5] = ["NUMERIC", "BOOLEAN", "CATEGORICAL", CHOICES, QUESTIONS];

/// Fills in the fields of a configuration.
pub(super) fn fill(fields: &mut JudgeFields, config: &Map<String, Value>) {
    let member = |name: &str| config.get(name).unwrap_or(&Value::Null);
    let text = |value: &Value| {
        let text = as_submitted(value.as_str().unwrap_or_default());
        text.trim().to_owned()
    };
    fields.has_reasons = *member("chain_of_thought") != false;
    if let Some(choices) = member("choice_scores").as_object() {
        fields.output = CHOICES.to_owned();
        let lines = choices.iter().map(|(choice, score)| format!("{choice} = {score}"));
        fields.categories = as_submitted(&lines.collect::<Vec<_>>().join("\n"));
        return;
    }
    if member("questions").is_array() {
        fields.output = QUESTIONS.to_owned();
        fields.questions = serde_json::to_string_pretty(member("questions")).unwrap_or_default();
        return;
    }
    let output = member("output");
    let score = &output["score"];
    // The legacy form has texts in place of objects.
    if score.is_string() {
        fields.output = "NUMERIC".to_owned();
        fields.score_description = text(score);
        fields.reasoning_description = text(&output["reasoning"]);
        return;
    }
    fields.output = text(&output["dataType"]);
    fields.min = number_text(&score["minValue"]);
    fields.max = number_text(&score["maxValue"]);
    let categories = score["categories"].as_array().into_iter().flatten();
    fields.categories = categories.map(text).collect::<Vec<_>>().join("\n");
    fields.is_multiple = score["shouldAllowMultipleMatches"] == true;
    fields.score_description = text(&score["description"]);
    fields.reasoning_description = text(&output["reasoning"]["description"]);
}

/// Inserts the members that the fields mean.
pub(super) fn insert(fields: &JudgeFields, config: &mut Map<String, Value>, faults: &mut Faults) {
    match fields.output.as_str() {
        QUESTIONS => {
            let questions = serde_json::from_str::<Vec<Value>>(&fields.questions);
            let questions = questions.unwrap_or_else(|error| {
                faults.add("questions", format!("must be a JSON array of questions: {error}"));
                Vec::new()
            });
            config.insert("questions".to_owned(), json!(questions));
        }
        CHOICES => {
            config.insert("choice_scores".to_owned(), Value::Object(choices(fields, faults)));
            config.insert("chain_of_thought".to_owned(), json!(fields.has_reasons));
        }
        known if TYPES.contains(&known) => {
            config.insert("output".to_owned(), typed(fields, faults));
        }
        other => {
            let message = format!("must be one of {}; got `{other}`", TYPES.join(", "));
            faults.add("output", message);
        }
    }
}

fn lines(fields: &JudgeFields) -> impl Iterator<Item = &str> {
    fields.categories.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// A choice and its score.
fn choice(line: &str) -> Option<(String, Value)> {
    let (choice, score) = line.rsplit_once('=')?;
    let score = score.trim();
    // An integer stays one.
    let score = match score.parse::<i64>() {
        Ok(score) => Value::from(score),
        Err(_) => Value::from(score.parse::<f64>().ok().filter(|score| score.is_finite())?),
    };
    Some((choice.trim().to_owned(), score))
}

fn choices(fields: &JudgeFields, faults: &mut Faults) -> Map<String, Value> {
    let mut choices = Map::new();
    for line in lines(fields) {
        match choice(line) {
            Some((choice, _)) if choices.contains_key(&choice) => {
                faults.add("categories", format!("must be unique, got `{choice}` twice"));
            }
            Some((choice, score)) => {
                choices.insert(choice, score);
            }
            None => {
                let message = format!("a line must be `choice = score`, got `{line}`");
                faults.add("categories", message);
            }
        }
    }
    choices
}

fn typed(fields: &JudgeFields, faults: &mut Faults) -> Value {
    let mut score = Map::new();
    if !fields.score_description.is_empty() {
        score.insert("description".to_owned(), json!(fields.score_description));
    }
    match fields.output.as_str() {
        "NUMERIC" => {
            let bounds = [("min", "minValue", &fields.min), ("max", "maxValue", &fields.max)];
            for (field, name, text) in bounds {
                if let Some(number) = faults.number::<f64>(field, text) {
                    score.insert(name.to_owned(), json!(number));
                }
            }
        }
        "CATEGORICAL" => {
            let categories: Vec<&str> = lines(fields).collect();
            score.insert("categories".to_owned(), json!(categories));
            score.insert("shouldAllowMultipleMatches".to_owned(), json!(fields.is_multiple));
        }
        _ => {}
    }
    let mut output = json!({ "dataType": fields.output, "score": score });
    if !fields.reasoning_description.is_empty() {
        output["reasoning"] = json!({ "description": fields.reasoning_description });
    }
    output
}
