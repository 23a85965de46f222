//! Commands of chromedriver that the WebDriver standard does not have.

use fantoccini::wd::WebDriverCompatibleCommand;
use serde_json::{Value, json};

type Address = Result<url::Url, url::ParseError>;

/// Reads the console.
#[derive(Debug)]
pub(crate) struct ConsoleLog;

impl WebDriverCompatibleCommand for ConsoleLog {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Address {
        base.join(&format!("session/{}/se/log", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        let body = json!({ "type": "browser" });
        (http::Method::POST, Some(body.to_string()))
    }
}

/// A command of the DevTools protocol with its parameters.
#[derive(Debug)]
pub(crate) struct Protocol(pub(crate) &'static str, pub(crate) Value);

impl WebDriverCompatibleCommand for Protocol {
    fn endpoint(&self, base: &url::Url, session: Option<&str>) -> Address {
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/goog/cdp/execute"))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        let body = json!({ "cmd": self.0, "params": self.1 });
        (http::Method::POST, Some(body.to_string()))
    }
}
