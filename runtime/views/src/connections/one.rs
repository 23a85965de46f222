//! The page of a connection: settings, test, models, evaluators with their pauses, and failures.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::{RejectedForm, ResourceLink, Shell, Text};

/// A connection.
#[derive(Clone, Debug, Template)]
#[template(path = "connection.html")]
pub struct ConnectionPage {
    /// Page frame.
    pub shell: Shell,
    /// Name.
    pub name: Text,
    /// URL of the page.
    pub href: String,
    /// Labels and values of its settings.
    pub facts: Vec<(&'static str, Text)>,
    /// Whether it has a key or needs none.
    pub has_key: bool,
    /// Why requests wait now.
    pub closed: Option<Text>,
    /// Labels and values of the costs of seven days.
    pub costs: Vec<(&'static str, String)>,
    /// Models with calls or with known capabilities.
    pub models: Vec<ConnectionModelLine>,
    /// Evaluators that use it.
    pub evaluators: Vec<ConnectionEvaluatorLine>,
    /// Number of evaluators that resume after a test that passes, such as `2 evaluators`; absent if none.
    pub resumable: Option<String>,
    /// The last failed calls.
    pub failures: Vec<ConnectionFailureLine>,
    /// The proposed or sent model of the test.
    pub test_model: String,
    /// The result of a test.
    pub test: Option<ConnectionTestView>,
    /// The rejected form of the test.
    pub rejected_form: RejectedForm,
    /// Whether the viewer may change connections.
    pub may_write: bool,
}

/// A model of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionModelLine {
    /// As the provider names it.
    pub name: Text,
    /// Requests of seven days.
    pub calls: String,
    /// Of these, failed ones; absent if none failed.
    pub failed: Option<String>,
    /// Cost of seven days.
    pub cost: String,
    /// Capabilities detected by calls within the last day.
    pub learned: Option<Text>,
}

/// An evaluator that uses a connection.
#[derive(Clone, Debug)]
pub struct ConnectionEvaluatorLine {
    /// The evaluator.
    pub evaluator: ResourceLink,
    /// Its models at this connection.
    pub models: Text,
    /// Its pause.
    pub pause: Option<EvaluatorPauseView>,
    /// Number of held executions, such as `3 executions held`; absent if none.
    pub waiting: Option<String>,
}

/// The pause of an evaluator.
#[derive(Clone, Debug)]
pub struct EvaluatorPauseView {
    /// Machine reason.
    pub reason: Text,
    /// Human-readable.
    pub message: Text,
    /// Start of the pause.
    pub since: Timestamp,
    /// Whether the connection caused it.
    pub is_of_connection: bool,
}

/// A failed call.
#[derive(Clone, Debug)]
pub struct ConnectionFailureLine {
    /// When the request was sent.
    pub at: Timestamp,
    /// The requested model.
    pub model: Text,
    /// Failure class.
    pub class: Text,
    /// Human-readable.
    pub message: Text,
}

/// The result of a test.
#[derive(Clone, Debug)]
pub struct ConnectionTestView {
    /// Whether it passed.
    pub passed: bool,
    /// The model that was called.
    pub model: Text,
    /// Class and message of the failure.
    pub failure: Option<(Text, Text)>,
    /// How to correct the failure.
    pub remedy: Option<&'static str>,
    /// The requests of the test.
    pub calls: Vec<ConnectionTestCall>,
    /// Capabilities of the model detected by calls.
    pub learned: Option<Text>,
    /// Number of resumed evaluators, such as `2 evaluators resumed`; absent if none.
    pub resumed: Option<String>,
}

/// A request of a test.
#[derive(Clone, Debug)]
pub struct ConnectionTestCall {
    /// The model that replied, if the provider reports it; else the requested one.
    pub model: Text,
    /// Method of the structured reply.
    pub method: Text,
    /// Latency.
    pub latency: String,
    /// Tokens of prompt and reply.
    pub tokens: String,
    /// Cost, or `cost unknown`.
    pub cost: String,
    /// `answered`, or class and message of the failure.
    pub outcome: Text,
}
