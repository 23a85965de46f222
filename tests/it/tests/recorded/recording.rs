//! What was answered, in files that people can read and compare.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use perpend_server::client::Answer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::masked::Mask;

/// Headers that are part of the contract, with the value that is not worth a word.
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
    /// Why it is another one than before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    pub status: u16,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// JSON as such; other text as text; bytes as their number.
    pub body: Value,
}

impl Answered {
    pub(crate) fn new(step: &str, answer: &Answer, mask: &Mask) -> Self {
        let status = answer.status.as_u16();
        let mut headers = BTreeMap::new();
        for (name, usual) in HEADERS {
            let value = match (name, answer.headers.get(name)) {
                (_, None) => "none".to_owned(),
                // A digest of what the body says, times included.
                ("etag", Some(_)) => "<etag>".to_owned(),
                (_, Some(value)) => mask.text(&String::from_utf8_lossy(value.as_bytes())),
            };
            // Without a word a header has its usual value, or is missing where it has none.
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
            json
        } else if let Ok(text) = std::str::from_utf8(&answer.body) {
            Value::String(mask.text(text))
        } else {
            Value::String(format!("{} bytes", answer.body.len()))
        };
        Self { step: step.to_owned(), why: None, status, headers, body }
    }

    fn says_the_same(&self, other: &Self) -> bool {
        (self.status, &self.headers, &self.body) == (other.status, &other.headers, &other.body)
    }
}

/// The recording, and what is meant to be different by now.
#[derive(Debug)]
pub(crate) struct Recording {
    before: Vec<Answered>,
    changed: Vec<Answered>,
}

fn read(path: &Path) -> anyhow::Result<Vec<Answered>> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(Vec::new());
    };
    let lines = text.lines().enumerate();
    let answers = lines.map(|(n, line)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), n + 1))
    });
    answers.collect()
}

fn write(path: &Path, answers: &[Answered]) -> anyhow::Result<()> {
    let mut text = String::new();
    for answer in answers {
        text.push_str(&serde_json::to_string(answer)?);
        text.push('\n');
    }
    Ok(std::fs::write(path, text)?)
}

fn by_step(answers: &[Answered]) -> BTreeMap<&str, &Answered> {
    answers.iter().map(|answer| (answer.step.as_str(), answer)).collect()
}

impl Recording {
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            before: read(&folder.join("before.jsonl"))?,
            changed: read(&folder.join("changed.jsonl"))?,
        })
    }

    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        write(&folder.join("before.jsonl"), &self.before)?;
        write(&folder.join("changed.jsonl"), &self.changed)
    }

    fn expected(&self) -> BTreeMap<&str, &Answered> {
        let mut expected = by_step(&self.before);
        expected.extend(by_step(&self.changed));
        expected
    }

    /// Each answer that is not the expected one, with both.
    pub(crate) fn compare(&self, answers: &[Answered]) -> anyhow::Result<()> {
        let expected = self.expected();
        let mut wrong = Vec::new();
        for answer in answers {
            match expected.get(answer.step.as_str()) {
                None => wrong.push(format!("{}: not recorded", answer.step)),
                Some(before) if before.says_the_same(answer) => {}
                Some(before) => wrong.push(format!(
                    "{}\n  before {}\n  now    {}",
                    answer.step,
                    serde_json::to_string(before)?,
                    serde_json::to_string(answer)?
                )),
            }
        }
        let now = by_step(answers);
        let gone = expected.keys().filter(|step| !now.contains_key(*step));
        wrong.extend(gone.map(|step| format!("{step}: recorded and not asked")));
        anyhow::ensure!(
            wrong.is_empty(),
            "{} of {} answers are others than recorded:\n{}",
            wrong.len(),
            answers.len(),
            wrong.join("\n")
        );
        Ok(())
    }

    /// Takes over what the recording does not have, in the order of the script.
    pub(crate) fn add_new(&mut self, answers: &[Answered]) {
        let known = by_step(&self.before);
        let all = answers.iter().map(|answer| {
            let before = known.get(answer.step.as_str());
            (*before.unwrap_or(&answer)).clone()
        });
        self.before = all.collect();
    }

    /// Notes what is another answer now; a reason that was given stays.
    pub(crate) fn note_changes(&mut self, answers: &[Answered]) {
        let (before, changed) = (by_step(&self.before), by_step(&self.changed));
        let differs = |answer: &&Answered| {
            let before = before.get(answer.step.as_str());
            !before.is_some_and(|before| before.says_the_same(answer))
        };
        let noted = answers.iter().filter(differs).map(|answer| {
            let known = changed.get(answer.step.as_str());
            let why = known.and_then(|known| known.why.clone());
            let mut answer = answer.clone();
            answer.why = Some(why.unwrap_or_default());
            answer
        });
        self.changed = noted.collect();
    }

    /// Refuses changes that nobody gave a reason for.
    pub(crate) fn check_reasons(&self) -> anyhow::Result<()> {
        let without = |answer: &&Answered| answer.why.as_deref().is_none_or(str::is_empty);
        let steps: Vec<&str> =
            self.changed.iter().filter(without).map(|answer| answer.step.as_str()).collect();
        anyhow::ensure!(steps.is_empty(), "no reason given: {}", steps.join(", "));
        Ok(())
    }
}
