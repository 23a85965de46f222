//! Names derived from what they name, so that doing work twice writes the same rows
//! (evaluation.md 1.7).

mod fingerprint;

use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::evaluation::{Fingerprint, Target};
use crate::ids::{EvaluatorId, ExecutionId, ProjectId, RuleId, ScoreId};
use crate::payload::Payload;
use crate::plugin::Item;

pub use fingerprint::{canonical, fingerprint};

const SCORES: Uuid = Uuid::from_u128(0x1b6f5e0a_52c9_4d0e_8f52_3a7c1d9e4b60);

/// The identity of an execution. Absent parts are empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExecutionKey<'a> {
    /// Tenant.
    pub project: &'a str,
    /// Rule.
    pub rule: &'a str,
    /// Evaluator, without version: a new version does not rescore by itself.
    pub evaluator: &'a str,
    /// `observation`, `trace`, ...
    pub target_kind: &'a str,
    /// Trace.
    pub trace: &'a str,
    /// Observation.
    pub observation: &'a str,
    /// Experiment run.
    pub run: &'a str,
    /// The item; the id of a session for session targets.
    pub item: &'a str,
    /// Repetition within an experiment.
    pub repetition: u32,
    /// 0, and one more for each rescoring.
    pub generation: u32,
}

/// The rule in the key of an execution in which this version runs in the shadow.
#[must_use]
pub fn shadow_rule(rule: &RuleId, version: u32) -> String {
    format!("{rule}/shadow:{version}")
}

impl<'a> ExecutionKey<'a> {
    /// The key of a rule's evaluator over a live target. `rule` is the rule's id, or the [`shadow_rule`].
    #[must_use]
    pub fn live(
        project: &'a ProjectId,
        rule: &'a str,
        evaluator: &'a EvaluatorId,
        target: &'a Target,
        generation: u32,
    ) -> Self {
        Self {
            project: project.as_str(),
            rule,
            evaluator: evaluator.as_str(),
            target_kind: target.kind().as_str(),
            trace: target.trace().map_or("", |id| id.as_str()),
            observation: target.observation().map_or("", |id| id.as_str()),
            run: target.run().unwrap_or_default(),
            item: target.session().map_or("", |id| id.as_str()),
            generation,
            ..Self::default()
        }
    }

    /// The key as a compact JSON array.
    #[must_use]
    pub fn text(&self) -> String {
        json!([
            "exec/1",
            self.project,
            self.rule,
            self.evaluator,
            self.target_kind,
            self.trace,
            self.observation,
            self.run,
            self.item,
            self.repetition,
            self.generation
        ])
        .to_string()
    }

    /// The execution's id, also the id of its own trace.
    #[must_use]
    pub fn execution_id(&self) -> ExecutionId {
        let hex = hex_digits(self.text().as_bytes(), 16);
        ExecutionId::new(&hex).unwrap_or_else(|_| unreachable!("hex digits are a valid id"))
    }
}

/// The id of the `occurrence`-th score called `name` in one result, counted from 0.
#[must_use]
pub fn score_id(execution: &ExecutionId, name: &str, occurrence: u32) -> ScoreId {
    let key = json!(["score/1", execution.as_str(), name, occurrence]).to_string();
    let id = Uuid::new_v5(&SCORES, key.as_bytes()).to_string();
    ScoreId::new(&id).unwrap_or_else(|_| unreachable!("a UUID is a valid id"))
}

/// The root span of the execution's own trace.
#[must_use]
pub fn root_span_id(execution: &ExecutionId) -> String {
    hex_digits(format!("{execution}/root").as_bytes(), 8)
}

/// The span of one model call within one attempt, both counted from 0.
#[must_use]
pub fn call_span_id(execution: &ExecutionId, attempt: u32, call: u32) -> String {
    hex_digits(format!("{execution}/{attempt}/{call}").as_bytes(), 8)
}

/// The seed a plug-in gets: equal calls get equal seeds on every machine. The fingerprint covers
/// component, evaluator and configuration; the origin of the item is not part of the call.
#[must_use]
pub fn seed(fingerprint: &Fingerprint, item: &Item) -> u64 {
    let mut hash = Sha256::new();
    hash.update(b"seed/v1\0");
    hash.update(fingerprint.as_bytes());
    for (kind, text) in [
        part(&item.input),
        part(&item.output),
        part(&item.expected_output),
        item.metadata.as_deref().map_or((0, ""), |json| (2, json)),
    ] {
        hash.update([kind]);
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    let digest: [u8; 32] = hash.finalize().into();
    first_bits(&digest)
}

fn part(payload: &Option<Payload>) -> (u8, &str) {
    match payload {
        None => (0, ""),
        Some(Payload::Text(text)) => (1, text),
        Some(Payload::Json(json)) => (2, json),
    }
}

fn first_bits(digest: &[u8; 32]) -> u64 {
    digest[..8].iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

pub(crate) fn hex_digits(bytes: &[u8], n_bytes: usize) -> String {
    use std::fmt::Write as _;
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    digest[..n_bytes].iter().fold(String::with_capacity(2 * n_bytes), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
