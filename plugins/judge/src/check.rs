//! The checks of a configuration that a JSON Schema cannot express.

use std::collections::HashSet;

use perpend_plugin::ConfigProblem;
use perpend_plugin::model::Role;

use crate::config::{
    DataType, JudgeConfig, LargePrompt, Output, Panel, QuestionsConfig, Reducer, RequestConfig,
    ScoreShape,
};
use crate::free_text;
use crate::shape::Shape;

/// The maximum length of a category.
const MAX_CATEGORY_BYTES: usize = 256;

/// The problems of the configuration of `judge`.
pub(crate) fn judge(config: &JudgeConfig) -> Vec<ConfigProblem> {
    let mut problems = request(&config.request);
    match (&config.output, &config.choice_scores) {
        (None, None) => {
            problems.push(ConfigProblem::at("", "`output` or `choice_scores` is required"))
        }
        (Some(_), Some(_)) => problems.push(ConfigProblem::at(
            "/choice_scores",
            "`output` and `choice_scores` exclude each other",
        )),
        (Some(Output::Typed(typed)), None) => {
            problems.extend(score("/output/score", typed.data_type, &typed.score))
        }
        (Some(Output::Legacy(_)), None) => {}
        (None, Some(scores)) => {
            let choices: Vec<&String> = scores.0.iter().map(|(choice, _)| choice).collect();
            problems.extend(names("/choice_scores", &choices));
        }
    }
    if let Some(shape) = config.shape() {
        let is_number = matches!(shape, Shape::Number { .. } | Shape::Choice(_));
        problems.extend(panel(config.panel, is_number));
        problems.extend(choices(config, &shape));
    }
    problems.extend(swap(config));
    problems.extend(explore_panel_problem(&config.request, config.panel));
    if config.request.large == LargePrompt::Explore && config.swap.is_some() {
        let message = "`swap` cannot be combined with `large: explore`";
        problems.push(ConfigProblem::at("/swap", message));
    }
    problems
}

/// The problems of the configuration of `questions`.
pub(crate) fn questions(config: &QuestionsConfig) -> Vec<ConfigProblem> {
    let mut problems = request(&config.request);
    let mut seen = HashSet::new();
    for (at, question) in config.questions.iter().enumerate() {
        if !seen.insert(&question.name) {
            problems.push(ConfigProblem::at(
                format!("/questions/{at}/name"),
                "the name of a question must be unique",
            ));
        }
        problems.extend(score(
            &format!("/questions/{at}/score"),
            question.data_type,
            &question.score,
        ));
    }
    let all_numbers =
        config.questions.iter().all(|question| question.data_type == DataType::Numeric);
    problems.extend(panel(config.panel, all_numbers));
    problems.extend(explore_panel_problem(&config.request, config.panel));
    problems
}

fn request(request: &RequestConfig) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let templates = request.templates();
    if templates.iter().all(|(_, template)| template.trim().is_empty()) {
        problems.push(ConfigProblem::at("/prompt", "`prompt` must not be empty"));
    } else if templates.iter().all(|(role, _)| *role == Role::System) {
        problems.push(ConfigProblem::at(
            "/prompt",
            "`prompt` must not consist of system messages only",
        ));
    }
    problems.extend(large(request));
    for (at, name) in request.trusted.iter().enumerate() {
        problems.extend(unknown_variable(request, name, format!("/trusted/{at}")));
    }
    for name in request.truncate.keys() {
        let token = name.replace('~', "~0").replace('/', "~1");
        problems.extend(unknown_variable(request, name, format!("/truncate/{token}")));
    }
    problems
}

/// The problems of `large` and the members that belong to it.
fn large(request: &RequestConfig) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    if request.large != LargePrompt::Fail && request.max_input_tokens.is_none() {
        let message = format!("`large: {}` requires `max_input_tokens`", request.large.name());
        problems.push(ConfigProblem::at("/large", message));
    }
    if request.large != LargePrompt::Explore && request.explore.is_some() {
        let message = "`explore` requires `large: explore`";
        problems.push(ConfigProblem::at("/explore", message));
    }
    problems
}

/// A panel cannot explore: a score has one list of evidence.
fn explore_panel_problem(request: &RequestConfig, panel: Panel) -> Option<ConfigProblem> {
    let is_panel = panel.models > 1 || panel.repeats > 1;
    (request.large == LargePrompt::Explore && is_panel).then(|| {
        let message = "`large: explore` requires a panel of one model and one repeat";
        ConfigProblem::at("/panel", message)
    })
}

/// The problem of a setting for a variable that the prompt does not contain.
fn unknown_variable(request: &RequestConfig, name: &str, pointer: String) -> Option<ConfigProblem> {
    let is_used = request
        .templates()
        .iter()
        .any(|(_, template)| perpend_template::names(template).contains(&name));
    (!is_used).then(|| {
        ConfigProblem::at(
            pointer,
            format!("unknown variable `{name}`: `prompt` does not contain it"),
        )
    })
}

fn score(pointer: &str, data_type: DataType, shape: &ScoreShape) -> Vec<ConfigProblem> {
    let at =
        |member: &str, message: &str| ConfigProblem::at(format!("{pointer}/{member}"), message);
    let mut problems = Vec::new();
    if data_type != DataType::Numeric {
        let only = "only a NUMERIC score can have bounds";
        problems.extend(shape.min_value.map(|_| at("minValue", only)));
        problems.extend(shape.max_value.map(|_| at("maxValue", only)));
    } else if let (Some(min), Some(max)) = (shape.min_value, shape.max_value)
        && max < min
    {
        problems.push(at("maxValue", "`maxValue` must not be less than `minValue`"));
    }
    match (&shape.categories, data_type) {
        (Some(categories), DataType::Categorical) => {
            let all: Vec<&String> = categories.iter().collect();
            problems.extend(names(&format!("{pointer}/categories"), &all));
            if categories.len() < 2 {
                problems.push(at(
                    "categories",
                    "a CATEGORICAL score must have at least two categories",
                ));
            }
        }
        (None, DataType::Categorical) => {
            problems.push(at("categories", "a CATEGORICAL score must have categories"))
        }
        (Some(_), _) => {
            problems.push(at("categories", "only a CATEGORICAL score can have categories"))
        }
        (None, _) => {}
    }
    if shape.should_allow_multiple_matches && data_type != DataType::Categorical {
        problems.push(at(
            "shouldAllowMultipleMatches",
            "only a CATEGORICAL score can have multiple matches",
        ));
    }
    problems
}

/// The problems of categories and choices: they must be trimmed, unique and short enough for a score.
fn names(pointer: &str, names: &[&String]) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let mut seen = HashSet::new();
    for name in names {
        let message = if name.trim().is_empty() {
            "a name must not be empty".to_owned()
        } else if name.trim() != name.as_str() {
            format!("{name:?} must not begin or end with white space")
        } else if name.len() > MAX_CATEGORY_BYTES {
            format!("a name must have at most {MAX_CATEGORY_BYTES} bytes, got {}", name.len())
        } else if !seen.insert(name.as_str()) {
            format!("duplicate name {name:?}")
        } else {
            continue;
        };
        problems.push(ConfigProblem::at(pointer, message));
    }
    problems
}

fn panel(panel: Panel, is_number: bool) -> Option<ConfigProblem> {
    let needs_numbers = matches!(panel.reducer, Reducer::Mean | Reducer::Median);
    (needs_numbers && !is_number).then(|| {
        let message =
            format!("`{}` requires NUMERIC scores or `choice_scores`", panel.reducer.name());
        ConfigProblem::at("/panel/reducer", message)
    })
}

/// The problems of members that require a closed set of choices.
fn choices(config: &JudgeConfig, shape: &Shape<'_>) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    if config.weighted && !matches!(shape, Shape::Choice(_)) {
        problems.push(ConfigProblem::at("/weighted", "`weighted` requires `choice_scores`"));
    }
    if config.logprobs.is_some() && shape.verdicts().is_none() {
        problems.push(ConfigProblem::at(
            "/logprobs",
            "`logprobs` requires a BOOLEAN score, a single category or `choice_scores`",
        ));
    }
    let Some(pattern) = &config.pattern else {
        return problems;
    };
    if let Err(why) = free_text::compile(pattern) {
        problems.push(ConfigProblem::at("/pattern", why.to_string()));
    }
    if !matches!(shape, Shape::Choice(_) | Shape::Category { several: false, .. }) {
        let message = "`pattern` requires `choice_scores` or a single category";
        problems.push(ConfigProblem::at("/pattern", message));
    }
    problems
}

fn swap(config: &JudgeConfig) -> Vec<ConfigProblem> {
    let Some([first, second]) = &config.swap else {
        return Vec::new();
    };
    let mut problems: Vec<_> =
        unknown_variable(&config.request, first, "/swap/0".to_owned()).into_iter().collect();
    problems.extend(unknown_variable(&config.request, second, "/swap/1".to_owned()));
    if first == second {
        problems.push(ConfigProblem::at("/swap", "`swap` must name two different variables"));
    }
    if config.choice_scores.is_none() {
        problems.push(ConfigProblem::at("/swap", "`swap` requires `choice_scores`"));
    }
    problems
}
