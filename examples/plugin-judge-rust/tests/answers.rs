//! Tests of the judge as a function, with a scripted model.

use std::cell::RefCell;
use std::rc::Rc;

use perpend_plugin::host::{Host, with_host};
use perpend_plugin::model::{Completion, ModelError, Request};
use perpend_plugin::prelude::*;
use perpend_plugin::{EvalError, Plugin};
use plugin_judge_rust::ThisPlugin;

/// Returns its answers in order, and records the requests.
struct Model {
    answers: RefCell<Vec<Result<&'static str, ModelError>>>,
    requests: Rc<RefCell<Vec<Request>>>,
}

impl Host for Model {
    fn complete(&self, request: &Request) -> Result<Completion, ModelError> {
        self.requests.borrow_mut().push(request.clone());
        let text = self.answers.borrow_mut().remove(0)?;
        Ok(Completion {
            structured: Some(text.to_owned()),
            ..Completion::of(text)
        })
    }
}

type Outcome = (Result<Vec<Score>, EvalError>, Vec<Request>);

fn judge(answers: Vec<Result<&'static str, ModelError>>, config: &str) -> Outcome {
    let requests = Rc::new(RefCell::new(Vec::new()));
    let model = Model {
        answers: RefCell::new(answers),
        requests: Rc::clone(&requests),
    };
    let item = Item {
        input: Some("What is the capital of France?".into()),
        ..Item::with_output("Paris")
    };
    let scores = with_host(model, || ThisPlugin::evaluate("answers", &item, config));
    let requests = requests.borrow().clone();
    (scores, requests)
}

#[test]
fn the_score_is_the_share_of_the_votes() {
    let (scores, requests) = judge(
        vec![
            Ok(r#"{"reason":"It does.","answered":true}"#),
            Ok(r#"{"reason":"No.","answered":false}"#),
        ],
        r#"{"votes":2}"#,
    );
    let score = &scores.unwrap()[0];
    assert_eq!(score.value, ScoreValue::Numeric(0.5));
    assert_eq!(score.comment.as_deref(), Some("It does.\nNo."));
    assert!(requests[0].messages[1].texts().contains("capital of France"));
    assert_ne!(requests[0].seed, requests[1].seed);
    assert!(
        requests[0]
            .response_schema
            .as_ref()
            .unwrap()
            .contains("answered")
    );
}

#[test]
fn an_error_of_the_model_is_returned() {
    let busy = ModelError::RateLimited("too many requests".to_owned());
    let (scores, _) = judge(vec![Err(busy)], "{}");
    assert_eq!(
        scores,
        Err(EvalError::Upstream("too many requests".to_owned()))
    );
}

#[test]
fn a_prompt_without_the_output_is_a_problem() {
    assert_eq!(ThisPlugin::check_config("answers", "{}"), []);
    let problems = ThisPlugin::check_config("answers", r#"{"prompt":"Is it good?"}"#);
    assert_eq!(problems[0].pointer, "/prompt");
}
