//! What is wrong with a configuration that satisfies its schema.

use std::collections::HashSet;

use perpend_plugin::ConfigProblem;
use perpend_plugin::model::Role;

use crate::config::{
    Asking, DataType, JudgeConfig, Large, Output, Panel, QuestionsConfig, Reducer, ScoreShape,
};
use crate::graded;
use crate::shape::Shape;

/// The longest category that a score may have.
const MAX_CATEGORY_BYTES: usize = 256;

/// Everything that is wrong with a judge.
pub(crate) fn judge(config: &JudgeConfig) -> Vec<ConfigProblem> {
    let mut found = asking(&config.asking);
    match (&config.output, &config.choice_scores) {
        (None, None) => found.push(ConfigProblem::at("", "output or choice_scores is required")),
        (Some(_), Some(_)) => found.push(ConfigProblem::at(
            "/choice_scores",
            "output is given as well; only one of them is possible",
        )),
        (Some(Output::Typed(typed)), None) => {
            found.extend(score("/output/score", typed.data_type, &typed.score))
        }
        (Some(Output::Legacy(_)), None) => {}
        (None, Some(scores)) => {
            let choices: Vec<&String> = scores.0.iter().map(|(choice, _)| choice).collect();
            found.extend(names("/choice_scores", &choices));
        }
    }
    if let Some(shape) = config.shape() {
        let is_number = matches!(shape, Shape::Number { .. } | Shape::Choice(_));
        found.extend(panel(config.panel, is_number));
        found.extend(choices(config, &shape));
    }
    found.extend(swap(config));
    found.extend(explored_once(&config.asking, config.panel));
    if config.asking.large == Large::Explore && config.swap.is_some() {
        let message = "large: explore looks at the trace once, and not in both orders";
        found.push(ConfigProblem::at("/swap", message));
    }
    found
}

/// Everything that is wrong with several questions.
pub(crate) fn questions(config: &QuestionsConfig) -> Vec<ConfigProblem> {
    let mut found = asking(&config.asking);
    let mut seen = HashSet::new();
    for (at, question) in config.questions.iter().enumerate() {
        if !seen.insert(&question.name) {
            found.push(ConfigProblem::at(
                format!("/questions/{at}/name"),
                "another question has this name",
            ));
        }
        found.extend(score(&format!("/questions/{at}/score"), question.data_type, &question.score));
    }
    let all_numbers =
        config.questions.iter().all(|question| question.data_type == DataType::Numeric);
    found.extend(panel(config.panel, all_numbers));
    found.extend(explored_once(&config.asking, config.panel));
    found
}

fn asking(asking: &Asking) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    let templates = asking.templates();
    if templates.iter().all(|(_, template)| template.trim().is_empty()) {
        found.push(ConfigProblem::at("/prompt", "the prompt is empty"));
    } else if templates.iter().all(|(role, _)| *role == Role::System) {
        found.push(ConfigProblem::at("/prompt", "the prompt has no message of the user"));
    }
    found.extend(large(asking));
    for (at, name) in asking.trusted.iter().enumerate() {
        found.extend(used(asking, name, format!("/trusted/{at}")));
    }
    for name in asking.truncate.keys() {
        let place = name.replace('~', "~0").replace('/', "~1");
        found.extend(used(asking, name, format!("/truncate/{place}")));
    }
    found
}

/// What has to stand beside `large`.
fn large(asking: &Asking) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    if asking.large != Large::Fail && asking.max_input_tokens.is_none() {
        let message = format!("{} needs max_input_tokens", asking.large.name());
        found.push(ConfigProblem::at("/large", message));
    }
    if asking.large != Large::Explore && asking.explore.is_some() {
        let message = "only `large: explore` has these limits";
        found.push(ConfigProblem::at("/explore", message));
    }
    found
}

/// One model explores once: what a score is made from is one list.
fn explored_once(asking: &Asking, panel: Panel) -> Option<ConfigProblem> {
    let is_panel = panel.models > 1 || panel.repeats > 1;
    (asking.large == Large::Explore && is_panel).then(|| {
        let message = "large: explore asks one model once, and not a panel";
        ConfigProblem::at("/panel", message)
    })
}

/// A setting of a variable that the prompt does not have is a misspelling.
fn used(asking: &Asking, name: &str, pointer: String) -> Option<ConfigProblem> {
    let is_used = asking
        .templates()
        .iter()
        .any(|(_, template)| perpend_template::names(template).contains(&name));
    (!is_used).then(|| ConfigProblem::at(pointer, format!("the prompt has no variable `{name}`")))
}

fn score(pointer: &str, data_type: DataType, shape: &ScoreShape) -> Vec<ConfigProblem> {
    let at =
        |member: &str, message: &str| ConfigProblem::at(format!("{pointer}/{member}"), message);
    let mut found = Vec::new();
    if data_type != DataType::Numeric {
        let only = "only a NUMERIC score has bounds";
        found.extend(shape.min_value.map(|_| at("minValue", only)));
        found.extend(shape.max_value.map(|_| at("maxValue", only)));
    } else if let (Some(min), Some(max)) = (shape.min_value, shape.max_value)
        && max < min
    {
        found.push(at("maxValue", "maxValue is less than minValue"));
    }
    match (&shape.categories, data_type) {
        (Some(categories), DataType::Categorical) => {
            let all: Vec<&String> = categories.iter().collect();
            found.extend(names(&format!("{pointer}/categories"), &all));
            if categories.len() < 2 {
                found.push(at("categories", "at least two categories are required"));
            }
        }
        (None, DataType::Categorical) => {
            found.push(at("categories", "a CATEGORICAL score needs categories"))
        }
        (Some(_), _) => found.push(at("categories", "only a CATEGORICAL score has categories")),
        (None, _) => {}
    }
    if shape.should_allow_multiple_matches && data_type != DataType::Categorical {
        found.push(at(
            "shouldAllowMultipleMatches",
            "only a CATEGORICAL score can have several matches",
        ));
    }
    found
}

/// Categories and choices: trimmed, unique and short enough to be a score.
fn names(pointer: &str, names: &[&String]) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for name in names {
        let message = if name.trim().is_empty() {
            "an empty name is not possible".to_owned()
        } else if name.trim() != name.as_str() {
            format!("{name:?} begins or ends with white space")
        } else if name.len() > MAX_CATEGORY_BYTES {
            format!("a name has at most {MAX_CATEGORY_BYTES} bytes")
        } else if !seen.insert(name.as_str()) {
            format!("{name:?} is given twice")
        } else {
            continue;
        };
        found.push(ConfigProblem::at(pointer, message));
    }
    found
}

fn panel(panel: Panel, is_number: bool) -> Option<ConfigProblem> {
    let needs_numbers = matches!(panel.reducer, Reducer::Mean | Reducer::Median);
    (needs_numbers && !is_number).then(|| {
        let message =
            format!("{} needs numbers: NUMERIC scores or choice_scores", panel.reducer.name());
        ConfigProblem::at("/panel/reducer", message)
    })
}

/// What needs a closed set of choices.
fn choices(config: &JudgeConfig, shape: &Shape<'_>) -> Vec<ConfigProblem> {
    let mut found = Vec::new();
    if config.weighted && !matches!(shape, Shape::Choice(_)) {
        found.push(ConfigProblem::at("/weighted", "weighted needs choice_scores"));
    }
    if config.logprobs.is_some() && shape.verdicts().is_none() {
        found.push(ConfigProblem::at("/logprobs", "only single choices have a distribution"));
    }
    let Some(pattern) = &config.pattern else {
        return found;
    };
    if let Err(why) = graded::compile(pattern) {
        found.push(ConfigProblem::at("/pattern", why.to_string()));
    }
    if !matches!(shape, Shape::Choice(_) | Shape::Category { several: false, .. }) {
        let message = "pattern needs choice_scores or categories of which one is chosen";
        found.push(ConfigProblem::at("/pattern", message));
    }
    found
}

fn swap(config: &JudgeConfig) -> Vec<ConfigProblem> {
    let Some([first, second]) = &config.swap else {
        return Vec::new();
    };
    let mut found: Vec<_> = used(&config.asking, first, "/swap/0".to_owned()).into_iter().collect();
    found.extend(used(&config.asking, second, "/swap/1".to_owned()));
    if first == second {
        found.push(ConfigProblem::at("/swap", "two different variables are required"));
    }
    if config.choice_scores.is_none() {
        found.push(ConfigProblem::at("/swap", "swap needs choice_scores"));
    }
    found
}
