//! The judge as a plain function; the test answers in the model's place.

use std::cell::RefCell;
use std::rc::Rc;

use perpend_plugin::host::{Host, with_host};
use perpend_plugin::model::{Completion, ModelError, Request};
use perpend_plugin::prelude::*;
use perpend_plugin::{EvalError, Plugin};
use plugin_judge_rust::ThisPlugin;

/// Gives its answers in turn, and remembers what it was asked.
struct Model {
    answers: RefCell<Vec<Result<&'static str, ModelError>>>,
    asked: Rc<RefCell<Vec<Request>>>,
}

impl Host for Model {
    fn complete(&self, request: &Request) -> Result<Completion, ModelError> {
        self.asked.borrow_mut().push(request.clone());
        let text = self.answers.borrow_mut().remove(0)?;
        Ok(Completion {
            structured: Some(text.to_owned()),
            ..Completion::of(text)
        })
    }
}

type Judged = (Result<Vec<Score>, EvalError>, Vec<Request>);

fn judge(answers: Vec<Result<&'static str, ModelError>>, config: &str) -> Judged {
    let asked = Rc::new(RefCell::new(Vec::new()));
    let model = Model {
        answers: RefCell::new(answers),
        asked: Rc::clone(&asked),
    };
    let item = Item {
        input: Some("What is the capital of France?".into()),
        ..Item::with_output("Paris")
    };
    let scores = with_host(model, || ThisPlugin::evaluate("answers", &item, config));
    let asked = asked.borrow().clone();
    (scores, asked)
}

#[test]
fn the_score_is_the_share_of_the_votes() {
    let (scores, asked) = judge(
        vec![
            Ok(r#"{"reason":"It does.","answered":true}"#),
            Ok(r#"{"reason":"No.","answered":false}"#),
        ],
        r#"{"votes":2}"#,
    );
    let score = &scores.unwrap()[0];
    assert_eq!(score.value, ScoreValue::Numeric(0.5));
    assert_eq!(score.comment.as_deref(), Some("It does.\nNo."));
    assert!(asked[0].messages[1].texts().contains("capital of France"));
    assert_ne!(asked[0].seed, asked[1].seed);
    assert!(
        asked[0]
            .response_schema
            .as_ref()
            .unwrap()
            .contains("answered")
    );
}

#[test]
fn an_error_of_the_model_is_handed_on() {
    let busy = ModelError::RateLimited("too many requests".to_owned());
    let (scores, _) = judge(vec![Err(busy)], "{}");
    assert_eq!(
        scores,
        Err(EvalError::Upstream("too many requests".to_owned()))
    );
}

#[test]
fn a_prompt_without_the_output_is_a_problem_at_its_place() {
    assert_eq!(ThisPlugin::check_config("answers", "{}"), []);
    let problems = ThisPlugin::check_config("answers", r#"{"prompt":"Is it good?"}"#);
    assert_eq!(problems[0].pointer, "/prompt");
}
