//! Types exchanged between the plug-in host and its callers. Mirrors the WIT package `perpend:evaluator`.

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::failure::FailureClass;
use crate::ids::{EvaluatorId, EvaluatorVersionId, ExecutionId, ProjectId, RuleId};
use crate::observation::PromptLink;
use crate::payload::Payload;
use crate::slots::{ModelNotes, Slot};
use crate::withdrawal::Withdrawal;

/// Version of the WIT package `perpend:evaluator` that this release implements.
pub const CONTRACT_VERSION: &str = "1.0.0";

/// SHA-256 of a component's bytes, shown as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// The text is not 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hexadecimal digits")]
pub struct InvalidDigest;

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// From the 32 bytes themselves.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(raw: &str) -> Result<Self, InvalidDigest> {
        let mut bytes = [0; 32];
        if raw.len() != 64 || !raw.is_ascii() {
            return Err(InvalidDigest);
        }
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&raw[2 * i..2 * i + 2], 16).map_err(|_| InvalidDigest)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
        } else {
            <[u8; 32]>::deserialize(deserializer).map(Self)
        }
    }
}

/// Whether a plug-in of this name (`vendor/name`) is first-party: the vendor `perpend` is reserved for plug-ins
/// that come with the server or that its operator adds. A project cannot register one.
#[must_use]
pub fn is_first_party_name(name: &str) -> bool {
    name.starts_with("perpend/")
}

/// The validated result of `describe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginInfo {
    /// `vendor/name`.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// Free text.
    pub description: String,
    /// At least one; ids are unique.
    pub evaluators: Vec<EvaluatorInfo>,
    /// Capabilities that its component imports, read from the file rather than from `describe`.
    #[serde(default)]
    pub capabilities: Grants,
    /// Its component exports `config-check`.
    #[serde(default)]
    pub checks_config: bool,
}

impl PluginInfo {
    /// The grants that an evaluator requires: `model` if a slot is required, `trace` if the item's trace is needed, each only
    /// if the component imports the capability.
    #[must_use]
    pub fn required(&self, evaluator: &EvaluatorInfo) -> Grants {
        Grants {
            model: self.capabilities.model && evaluator.slots.iter().any(|slot| slot.required),
            trace_reader: self.capabilities.trace_reader && evaluator.needs.trace,
        }
    }
}

/// Capabilities that must be granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Grants {
    /// `perpend:evaluator/model`.
    pub model: bool,
    /// `perpend:evaluator/trace-reader`.
    #[serde(rename = "trace")]
    pub trace_reader: bool,
}

impl Grants {
    /// No capability.
    pub const NONE: Self = Self { model: false, trace_reader: false };

    /// Every capability.
    pub const ALL: Self = Self { model: true, trace_reader: true };

    /// The capability names in the API.
    pub const NAMES: [&str; 2] = ["model", "trace"];

    /// The names of the set capabilities.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        let set = [self.model, self.trace_reader];
        let named = Self::NAMES.into_iter().zip(set);
        named.filter_map(|(name, is_set)| is_set.then_some(name)).collect()
    }

    /// The same with `name` set; `None` for an unknown capability.
    #[must_use]
    pub fn with(mut self, name: &str) -> Option<Self> {
        match name {
            "model" => self.model = true,
            "trace" => self.trace_reader = true,
            _ => return None,
        }
        Some(self)
    }

    /// The capabilities that are set here and not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self {
            model: self.model && !other.model,
            trace_reader: self.trace_reader && !other.trace_reader,
        }
    }
}

/// One evaluator of a plug-in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluatorInfo {
    /// Unique within the plug-in.
    pub id: String,
    /// For lists and menus.
    pub title: String,
    /// Free text.
    pub description: String,
    /// JSON Schema (draft 2020-12) of the configuration, as JSON text.
    pub config_schema: String,
    /// Parts of the item it reads.
    pub needs: ItemParts,
    /// Models it calls.
    pub slots: Vec<ModelSlot>,
    /// Scores it gives.
    pub scores: Vec<ScoreSpec>,
    /// Score names depend on configuration or data.
    pub dynamic_scores: bool,
    /// Equal calls give equal scores.
    pub deterministic: bool,
}

/// Parts of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemParts {
    /// `item.input`.
    pub input: bool,
    /// `item.output`.
    pub output: bool,
    /// `item.expected-output`.
    pub expected_output: bool,
    /// `item.metadata`.
    pub metadata: bool,
    /// `item.trace`.
    pub trace: bool,
}

/// A model used by an evaluator, chosen by the user.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSlot {
    /// The value that the plug-in passes as `slot`.
    pub name: String,
    /// Free text.
    pub description: String,
    /// `chat` or `embedding`.
    pub kind: SlotKind,
    /// The evaluator cannot be saved without a model here.
    pub required: bool,
}

/// The use of a model slot.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotKind {
    /// Chat completions.
    Chat,
    /// Embedding vectors.
    Embedding,
}

/// Declares one score.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreSpec {
    /// Its name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Values it may take.
    pub domain: ScoreDomain,
}

/// Values a score may take.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreDomain {
    /// A number in a range; both ends belong to it.
    Numeric {
        /// Lower end.
        min: Option<f64>,
        /// Upper end.
        max: Option<f64>,
        /// A larger number is a better result.
        higher_is_better: bool,
    },
    /// True or false.
    Boolean,
    /// A closed set; empty means any.
    Categorical(Vec<String>),
}

/// The item to score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Unique within one run; for log lines only.
    pub id: String,
    /// Input.
    pub input: Option<Payload>,
    /// Output.
    pub output: Option<Payload>,
    /// Expected output.
    pub expected_output: Option<Payload>,
    /// A JSON object as text.
    pub metadata: Option<String>,
    /// The trace that the plug-in may read.
    pub trace: Option<TraceRef>,
    /// The scored session; all its traces can be read.
    pub session: Option<String>,
    /// The scored experiment run; the traces of its items can be read.
    pub run: Option<String>,
}

impl Item {
    /// Bytes of its texts.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        let parts = [&self.input, &self.output, &self.expected_output];
        let parts = parts.into_iter().flatten();
        parts.map(|part| part.as_str().len()).sum::<usize>()
            + self.metadata.as_ref().map_or(0, String::len)
    }
}

/// A trace, or one observation in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRef {
    /// Trace id.
    pub trace_id: String,
    /// The observation that is scored; absent for the whole trace.
    pub observation_id: Option<String>,
}

/// One call of `evaluate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluationCall {
    /// The component.
    pub plugin: Digest,
    /// The id of the evaluator in it.
    pub evaluator_id: Arc<str>,
    /// Checked configuration, defaults filled in: a JSON object as text.
    pub config: Arc<str>,
    /// The item, holding only the parts the evaluator needs. Calls over one target may share it.
    pub item: Arc<Item>,
    /// `context.seed`.
    pub seed: u64,
    /// `context.run-time`, milliseconds since the epoch.
    pub run_time_ms: u64,
    /// Limits in force.
    pub limits: Limits,
    /// The purpose of the call.
    pub purpose: Purpose,
    /// The caller; `None` has no capability. Never sent to a worker: the server identifies the caller by the call number that
    /// it assigned.
    #[serde(skip)]
    pub origin: Option<Arc<CallOrigin>>,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Scores for the item.
    #[default]
    Evaluate,
    /// Whether the configuration is usable, by `config-check`: no scores, or `invalid_config` with one
    /// line for each problem, the pointer first. A plug-in without that export finds nothing wrong.
    CheckConfig,
}

/// The evaluator version that makes calls, with its grants.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluatorContext {
    /// The tenant.
    pub project: ProjectId,
    /// The evaluator.
    pub evaluator: EvaluatorId,
    /// Its version.
    pub version: EvaluatorVersionId,
    /// Capabilities of that version.
    pub grants: Grants,
    /// Its models. A slot without one had no default model when this was resolved.
    pub slots: Vec<Slot>,
}

/// A call for an item of a run that the server executes.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCall {
    /// The run.
    pub run: String,
    /// Limit of the cost of the experiment, US dollars.
    pub max_usd: Option<f64>,
    /// The prompt of the call.
    pub prompt: Option<PromptLink>,
}

/// One try of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptRef {
    /// The execution.
    pub execution: ExecutionId,
    /// Of this rule.
    pub rule: RuleId,
    /// Counted from 0.
    pub attempt: u32,
    /// The fencing token of its lease: an attempt that lost the lease makes no model calls.
    pub fence: i64,
    /// A user requested it and waits: its model calls have priority over those of rules.
    pub is_manual: bool,
    /// It belongs to a backfill: its model calls take turns with those of live scoring, also with those of its own rule.
    pub is_backfill: bool,
    /// The item of a run for which the call is made; `execution` is the id of its trace and `rule` the id of the
    /// experiment then. Absent for evaluations.
    pub run: Option<RunCall>,
}

/// Which cached replies of the project may answer model calls, unless the guest decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyPolicy {
    /// Replies to requests with temperature 0.
    #[default]
    Deterministic,
    /// All replies.
    Any,
    /// No replies: models are called again, and their replies replace the cached ones.
    Refresh,
    /// No replies, and none is cached.
    Isolated,
}

/// The use of cached replies in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyReuse {
    /// Which cached replies are read.
    pub replies: ReplyPolicy,
    /// Repetition of the same evaluation, from 0: runs do not share replies.
    pub run: u32,
}

/// The caller of one call, and the record of its model calls.
#[derive(Debug)]
pub struct CallOrigin {
    /// The evaluator version.
    pub context: Arc<EvaluatorContext>,
    /// `None` in a trial, which stores nothing.
    pub attempt: Option<AttemptRef>,
    /// The use of cached replies.
    pub reuse: ReplyReuse,
    /// Filled while the call runs.
    pub notes: ModelNotes,
    /// Set when the call must not start any more.
    pub withdrawal: Withdrawal,
    /// Without an attempt: live scoring comes first.
    pub is_background: bool,
}

impl CallOrigin {
    /// The origin of one attempt of an execution, or of a trial.
    #[must_use]
    pub fn new(context: &Arc<EvaluatorContext>, attempt: Option<AttemptRef>) -> Self {
        Self {
            context: Arc::clone(context),
            attempt,
            reuse: ReplyReuse::default(),
            notes: ModelNotes::default(),
            withdrawal: Withdrawal::default(),
            is_background: false,
        }
    }

    /// The same behind live scoring.
    #[must_use]
    pub fn in_background(self) -> Self {
        Self { is_background: true, ..self }
    }

    /// The same with another use of cached replies.
    #[must_use]
    pub fn reusing(self, reuse: ReplyReuse) -> Self {
        Self { reuse, ..self }
    }
}

/// Two calls have the same origin if they belong to the same attempt; recorded model calls do not count.
impl PartialEq for CallOrigin {
    fn eq(&self, other: &Self) -> bool {
        self.context == other.context && self.attempt == other.attempt
    }
}

/// Limits of one call (plugins.md 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time in the guest.
    pub cpu_ms: u32,
    /// Wall-clock time, model calls excluded.
    pub wall_ms: u32,
    /// Linear memory, all memories together.
    pub memory_bytes: u64,
    /// Data handed to the host in one call.
    pub output_bytes: u32,
    /// Scores per item.
    pub n_scores: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu_ms: 2_000,
            wall_ms: 120_000,
            memory_bytes: 256 << 20,
            output_bytes: 8 << 20,
            n_scores: 256,
        }
    }
}

/// The result of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// Scores, validated against the declaration, or the failure.
    pub outcome: Result<Vec<PluginScore>, Failure>,
    /// CPU time in the guest, microseconds.
    pub cpu_us: u64,
    /// Log lines, at most 200.
    pub log: Vec<LogLine>,
    /// Charges its bytes to the receiver.
    #[serde(skip)]
    pub permit: ResultPermit,
}

/// The resources of a result in memory, released with its last clone.
#[derive(Clone, Default)]
pub struct ResultPermit(Option<Arc<dyn Any + Send + Sync>>);

impl ResultPermit {
    /// Holds a value.
    #[must_use]
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(held)))
    }
}

/// All permits are equal: results are compared by content.
impl PartialEq for ResultPermit {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for ResultPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ResultPermit").field(&self.0.is_some()).finish()
    }
}

impl CallResult {
    /// A result without scores and failure.
    #[must_use]
    pub const fn empty() -> Self {
        Self { outcome: Ok(Vec::new()), cpu_us: 0, log: Vec::new(), permit: ResultPermit(None) }
    }

    /// Bytes of its texts, and a few for each score and line.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let of_score = |score: &PluginScore| {
            let value = match &score.value {
                PluginScoreValue::Categorical(category) => category.len(),
                PluginScoreValue::Numeric(_) | PluginScoreValue::Boolean(_) => 0,
            };
            let texts = [&score.observation_id, &score.comment, &score.metadata];
            64 + score.name.len() + value + texts.into_iter().map(text).sum::<usize>()
        };
        let of_outcome: usize = match &self.outcome {
            Ok(scores) => scores.iter().map(of_score).sum(),
            Err(failure) => failure.message.len(),
        };
        let of_line = |line: &LogLine| 16 + line.message.len() + text(&line.fields);
        of_outcome + self.log.iter().map(of_line).sum::<usize>()
    }

    /// The bytes that must be equal whenever and wherever the same call is repeated with the same answers of the host: outcome
    /// and log. The CPU time is not included.
    #[must_use]
    pub fn replayable(&self) -> Vec<u8> {
        // Neither map nor float formatting is involved: postcard writes fields in their order, and
        // floats as their bits. A vector takes what it is given.
        postcard::to_allocvec(&(&self.outcome, &self.log)).unwrap_or_default()
    }
}

/// One score as returned by the plug-in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginScore {
    /// Name.
    pub name: String,
    /// Value.
    pub value: PluginScoreValue,
    /// Attach to this observation instead of the subject.
    pub observation_id: Option<String>,
    /// Explanation.
    pub comment: Option<String>,
    /// A JSON object as text.
    pub metadata: Option<String>,
}

/// Value of a [`PluginScore`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum PluginScoreValue {
    /// Finite.
    Numeric(f64),
    /// True or false.
    Boolean(bool),
    /// At most 256 bytes.
    Categorical(String),
}

/// The reason why a call returned no scores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Failure class; determines retries and pauses.
    pub class: FailureClass,
    /// Human-readable.
    pub message: String,
}

/// A log line of a plug-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// Text, cut at 8 KiB.
    pub message: String,
    /// A JSON object as text.
    pub fields: Option<String>,
}
