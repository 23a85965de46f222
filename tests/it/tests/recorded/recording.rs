//! Responses in a form that people can read and compare.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use perpend_server::client::Answer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::masked::Mask;

/// Headers that are part of the contract, with the usual value, which is not recorded.
const HEADERS: [(&str, &str); 7] = [
    ("content-type", "application/json"),
    ("content-disposition", ""),
    ("cache-control", ""),
    ("etag", ""),
    ("location", ""),
    ("retry-after", ""),
    ("www-authenticate", "Basic realm=\"perpend\", charset=\"UTF-8\""),
];

/// The answer to one request.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub(crate) struct Answered {
    pub step: String,
    pub status: u16,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// JSON or text; the length of other bytes.
    pub body: Value,
}

impl Answered {
    pub(crate) fn new(step: &str, answer: &Answer, mask: &Mask) -> Self {
        let status = answer.status.as_u16();
        let mut headers = BTreeMap::new();
        for (name, usual) in HEADERS {
            let value = match (name, answer.headers.get(name)) {
                (_, None) => "none".to_owned(),
                // A digest of the body, times included.
                ("etag", Some(_)) => "<etag>".to_owned(),
                (_, Some(value)) => mask.text(&String::from_utf8_lossy(value.as_bytes())),
            };
            // A header that is not recorded has its usual value, or is absent if it has none.
            let is_usual = match (name, status, answer.body.is_empty()) {
                ("content-type", _, false) | ("www-authenticate", 401, _) => value == usual,
                _ => value == "none",
            };
            if !is_usual {
                headers.insert(name.to_owned(), value);
            }
        }
        let body = if answer.body.is_empty() {
            Value::Null
        } else if let Ok(mut json) = serde_json::from_slice(&answer.body) {
            mask.value(&mut json);
            if 400 <= status {
                remove_messages(&mut json);
            }
            json
        } else if let Ok(text) = std::str::from_utf8(&answer.body) {
            Value::String(mask.text(text))
        } else {
            Value::String(format!("{} bytes", answer.body.len()))
        };
        Self { step: step.to_owned(), status, headers, body }
    }
}

/// Removes the texts of an error, which are free to change.
fn remove_messages(body: &mut Value) {
    match body {
        Value::Object(members) => {
            members.retain(|name, text| {
                !["message", "detail"].contains(&name.as_str()) || !text.is_string()
            });
            members.values_mut().for_each(remove_messages);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_messages),
        _ => {}
    }
}

/// The responses to the steps of the script, in their order.
#[derive(Debug)]
pub(crate) struct Snapshot(pub Vec<Answered>);

fn by_step(answers: &[Answered]) -> BTreeMap<&str, &Answered> {
    answers.iter().map(|answer| (answer.step.as_str(), answer)).collect()
}

impl Snapshot {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let answers = text.lines().enumerate().map(|(n, line)| {
            serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), n + 1))
        });
        Ok(Self(answers.collect::<anyhow::Result<_>>()?))
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = String::new();
        for answer in &self.0 {
            text.push_str(&serde_json::to_string(answer)?);
            text.push('\n');
        }
        Ok(std::fs::write(path, text)?)
    }

    /// Fails with each response that differs, old and new.
    pub(crate) fn compare(&self, answers: &[Answered]) -> anyhow::Result<()> {
        let expected = by_step(&self.0);
        let mut wrong = Vec::new();
        for answer in answers {
            match expected.get(answer.step.as_str()) {
                None => wrong.push(format!("{}: not in the snapshot", answer.step)),
                Some(recorded) if *recorded == answer => {}
                Some(recorded) => wrong.push(format!(
                    "{}\n  recorded {}\n  now      {}",
                    answer.step,
                    serde_json::to_string(recorded)?,
                    serde_json::to_string(answer)?
                )),
            }
        }
        let now = by_step(answers);
        let gone = expected.keys().filter(|step| !now.contains_key(*step));
        wrong.extend(gone.map(|step| format!("{step}: in the snapshot, not in the script")));
        anyhow::ensure!(
            wrong.is_empty(),
            "{} of {} responses differ from the snapshot:\n{}",
            wrong.len(),
            answers.len(),
            wrong.join("\n")
        );
        Ok(())
    }
}
