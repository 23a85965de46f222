//! Evaluators, rules and executions (evaluation.md 1).

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::budget::Budget;
use crate::cron::Schedule;
use crate::filter::{Column, RULE_OBSERVATION, RULE_RUN, RULE_SESSION, RULE_TRACE, WrittenFilter};
use crate::ids::{
    AssignmentId, EvaluatorId, EvaluatorVersionId, ExecutionId, ObservationId, ProjectId, RuleId,
    SessionId, TraceId,
};
use crate::named::named_enum;
use crate::plugin::{Digest, EvaluatorInfo, FailureClass, Grants};
use crate::slots::Slot;
use crate::time::Timestamp;

/// SHA-256 over the canonical JSON of everything that determines a score (evaluation.md 1.1).
pub type Fingerprint = Digest;

/// The environment of the traces that the server records of its own executions. No rule scores them.
pub const OWN_ENVIRONMENT: &str = "perpend-eval";

/// An evaluator: a stable id with versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluator {
    /// Its id.
    pub id: EvaluatorId,
    /// Name.
    pub name: String,
    /// Free text.
    pub description: Option<String>,
    /// Set while rules must not use it.
    pub paused: Option<Pause>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the change.
    pub updated_at: Timestamp,
    /// The newest version, or the requested one.
    pub version: EvaluatorVersion,
}

/// The pause of a rule or evaluator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Machine reason, such as `PLUGIN_FAILING`.
    pub reason: String,
    /// A human-readable sentence.
    pub message: String,
    /// Start of the pause.
    pub at: Timestamp,
    /// Automatic end of the pause; with [`Self::is_breaker`] the time of the next probe. Absent if it has to be ended by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Pause {
    /// The budget of the rule or evaluator is exhausted.
    pub const BUDGET_REACHED: &'static str = "BUDGET_REACHED";
    /// Consecutive executions of the rule failed because of the plug-in.
    pub const PLUGIN_FAILING: &'static str = "PLUGIN_FAILING";
    /// Consecutive executions of the rule failed because of a model provider.
    pub const UPSTREAM_FAILING: &'static str = "UPSTREAM_FAILING";

    /// Whether a circuit breaker set it: it ends when a probe execution succeeds.
    #[must_use]
    pub fn is_breaker(&self) -> bool {
        [Self::PLUGIN_FAILING, Self::UPSTREAM_FAILING].contains(&self.reason.as_str())
    }

    /// Whether a probe execution is due.
    #[must_use]
    pub fn is_probing(&self, now: Timestamp) -> bool {
        self.is_breaker() && self.until.is_some_and(|until| until <= now)
    }

    /// Whether new targets are dropped: a broken plug-in or configuration would fail on them, unless the next target is the
    /// probe. If the cause is outside the evaluator, targets are held for later.
    #[must_use]
    pub fn refuses(&self, now: Timestamp) -> bool {
        self.reason.starts_with("PLUGIN_") && !self.is_probing(now)
    }
}

/// One immutable version of an evaluator.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluatorVersion {
    /// Its id.
    pub id: EvaluatorVersionId,
    /// 1, 2, ...
    pub number: u32,
    /// The component.
    pub plugin: Digest,
    /// `vendor/name`.
    pub plugin_name: String,
    /// Semantic version of the plug-in.
    pub plugin_version: String,
    /// The id of the evaluator within the plug-in.
    pub plugin_evaluator: String,
    /// Validated configuration with defaults: a JSON object.
    pub config: Value,
    /// Default mapping.
    pub mapping: Vec<Mapping>,
    /// Granted capabilities.
    pub grants: Grants,
    /// Its models, one entry per used slot of the plug-in.
    pub slots: Vec<Slot>,
    /// Digest of everything that determines its scores.
    pub fingerprint: Fingerprint,
    /// Creation time.
    pub created_at: Timestamp,
}

/// The first-party plug-in that runs Python source.
pub const PYTHON_INTERPRETER: &str = "perpend/python";
/// The first-party plug-in that runs JavaScript and TypeScript source.
pub const JAVASCRIPT_INTERPRETER: &str = "perpend/javascript";
/// The evaluator of both interpreters that takes source text as its configuration.
pub const SOURCE_EVALUATOR: &str = "code";
/// The first-party plug-in of model judges.
pub const JUDGES: &str = "perpend/judge";
/// Its evaluator for one question: evaluators of type `llm_as_judge`.
pub const JUDGE_EVALUATOR: &str = "judge";

impl EvaluatorVersion {
    /// Whether it runs source code: evaluators of type `code`.
    #[must_use]
    pub fn runs_source(&self) -> bool {
        self.plugin_evaluator == SOURCE_EVALUATOR
            && [PYTHON_INTERPRETER, JAVASCRIPT_INTERPRETER].contains(&self.plugin_name.as_str())
    }

    /// The language of its source, `PYTHON`, `TYPESCRIPT` or `JAVASCRIPT`, and the source; `None` for other evaluators.
    #[must_use]
    pub fn source(&self) -> Option<(&'static str, &str)> {
        let language = match self.plugin_name.as_str() {
            PYTHON_INTERPRETER => "PYTHON",
            _ if self.config["language"] == "typescript" => "TYPESCRIPT",
            _ => "JAVASCRIPT",
        };
        let source = self.config["source"].as_str().unwrap_or_default();
        self.runs_source().then_some((language, source))
    }

    /// Whether it is a model judge. The data type of its only score depends on the configuration.
    #[must_use]
    pub fn is_judge(&self) -> bool {
        self.plugin_evaluator == JUDGE_EVALUATOR && self.plugin_name == JUDGES
    }
}

/// The naming of scores of an evaluator (evaluation.md 1.15). The *given* name comes from the plug-in; lists, filters and
/// metrics use the *stored* name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreNaming {
    /// The given name: source code names its scores.
    Given,
    /// The evaluator's name: a judge, or a function that declares exactly one score.
    Evaluator,
    /// The evaluator's name, a dot, the given name.
    Qualified,
}

impl ScoreNaming {
    /// The naming of a version. `info` describes its evaluator; without it the number of scores is unknown.
    #[must_use]
    pub fn of(version: &EvaluatorVersion, info: Option<&EvaluatorInfo>) -> Self {
        if version.runs_source() {
            return Self::Given;
        }
        if version.is_judge() {
            return Self::Evaluator;
        }
        match info {
            Some(info) if info.scores.len() == 1 && !info.dynamic_scores => Self::Evaluator,
            _ => Self::Qualified,
        }
    }

    /// The name under which a score is stored.
    #[must_use]
    pub fn stored<'n>(self, evaluator: &'n str, given: &'n str) -> Cow<'n, str> {
        match self {
            Self::Given => given.into(),
            Self::Evaluator => evaluator.into(),
            Self::Qualified => format!("{evaluator}.{given}").into(),
        }
    }
}

/// Fills one variable, or one part of the item, from the target.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mapping {
    /// `input`, `output`, `expected_output`, `metadata`, or a further name that arrives in
    /// `item.metadata["perpend.vars"]`.
    pub variable: String,
    /// The source of the value (evaluation.md 1.2).
    pub source: String,
    /// RFC 9535 path into the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_path: Option<String>,
}

named_enum!(
    /// The kind of target of a rule.
    TargetKind {
        Observation = "observation",
        /// Root observations of experiment items.
        Experiment = "experiment",
        Trace = "trace",
        Session = "session",
        /// A whole run of an experiment.
        Run = "run",
    }
);

named_enum!(
    /// The action when a mapped part is absent.
    OnMissing {
        Fail = "fail",
        Skip = "skip",
        Empty = "empty",
    }
);

named_enum!(
    /// The action when spans arrive after scoring.
    LatePolicy {
        Ignore = "ignore",
        Rescore = "rescore",
    }
);

/// An evaluation rule: which targets are scored, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its id.
    pub id: RuleId,
    /// Name.
    pub name: String,
    /// Determines filter columns and mapping sources.
    pub target: TargetKind,
    /// Set by the user.
    pub enabled: bool,
    /// Set while it is blocked although enabled.
    pub paused: Option<Pause>,
    /// Rate in (0, 1].
    pub sampling: f64,
    /// Use the rule id as salt, so that rules draw different samples.
    pub sampling_independent: bool,
    /// Selects the targets; checked when saved.
    pub filter: WrittenFilter,
    /// 1 to 20, in order.
    pub assignments: Vec<Assignment>,
    /// When complete targets are evaluated; absent: at once.
    pub schedule: Option<Schedule>,
    /// When a target is complete.
    pub timing: Timing,
    /// Action when a mapped part is absent.
    pub on_missing: OnMissing,
    /// Action when spans arrive after scoring.
    pub late: LatePolicy,
    /// Limits on the cost of its model calls.
    pub budget: Vec<Budget>,
    /// The rules that must have finished with a target before this one evaluates it.
    pub after: Vec<RuleId>,
    /// With `after`: share of the targets rejected by conditions on scores alone that are scored nevertheless, to estimate
    /// what the filter misses.
    pub audit: f64,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the change.
    pub updated_at: Timestamp,
}

impl TargetKind {
    /// The filter columns of rules for such targets.
    #[must_use]
    pub const fn filter_columns(self) -> &'static [Column] {
        match self {
            Self::Observation | Self::Experiment => RULE_OBSERVATION,
            Self::Trace => RULE_TRACE,
            Self::Session => RULE_SESSION,
            Self::Run => RULE_RUN,
        }
    }

    /// Whether its targets are single observations.
    #[must_use]
    pub const fn is_of_observations(self) -> bool {
        matches!(self, Self::Observation | Self::Experiment)
    }

    /// Containment level: 0 for observations, 1 for traces, 2 for sessions, 3 for runs.
    #[must_use]
    pub const fn size(self) -> u8 {
        match self {
            Self::Observation | Self::Experiment => 0,
            Self::Trace => 1,
            Self::Session => 2,
            Self::Run => 3,
        }
    }

    /// Whether a rule of this kind applies to the target.
    #[must_use]
    pub const fn is_for(self, target: &Target) -> bool {
        self.size() == target.kind().size()
    }
}

impl Rule {
    /// Whether both have the same name, target, filter and evaluators with their mappings, in any order. Two such rules would
    /// score every target twice.
    #[must_use]
    pub fn is_duplicate_of(&self, other: &Self) -> bool {
        self.name == other.name
            && self.target == other.target
            && evaluators(self) == evaluators(other)
            && self.filter.filter().is_equivalent_to(other.filter.filter())
    }
}

/// The evaluators of a rule, the versions and how each is mapped, in a fixed order.
fn evaluators(rule: &Rule) -> Vec<(&EvaluatorId, VersionPolicy, Option<Vec<&Mapping>>)> {
    let assignments = rule.assignments.iter().map(|each| {
        let mapping = each.mapping.as_ref().map(|mapping| {
            let mut mapping: Vec<&Mapping> = mapping.iter().collect();
            mapping.sort_by_key(|entry| &entry.variable);
            mapping
        });
        (&each.evaluator_id, each.version, mapping)
    });
    let mut evaluators: Vec<_> = assignments.collect();
    evaluators.sort_by_key(|(id, ..)| *id);
    evaluators
}

/// Waits before a target counts as complete, milliseconds (evaluation.md 1.4). `None`: the default
/// of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timing {
    /// Since the last change, when the root has ended.
    pub settle_ms: Option<i64>,
    /// Since the last span, when no root was seen.
    pub quiet_ms: Option<i64>,
    /// Since the first span, whatever happens.
    pub max_wait_ms: Option<i64>,
}

/// The version of an evaluator that a rule uses (evaluation.md 1.12). Its text is `latest`, `pinned:N` or `shadow:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VersionPolicy {
    /// The newest.
    #[default]
    Latest,
    /// This one, whatever is saved later.
    Pinned(u32),
    /// Runs next to the newest other version; its scores are kept apart.
    Shadow(u32),
}

/// The text is not a [`VersionPolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be `latest`, `pinned:N` or `shadow:N`, where N is the number of a version")]
pub struct InvalidVersionPolicy;

impl VersionPolicy {
    /// The version number in the policy.
    #[must_use]
    pub const fn named(self) -> Option<u32> {
        match self {
            Self::Latest => None,
            Self::Pinned(number) | Self::Shadow(number) => Some(number),
        }
    }

    /// The shadow version.
    #[must_use]
    pub const fn shadow(self) -> Option<u32> {
        match self {
            Self::Shadow(number) => Some(number),
            Self::Latest | Self::Pinned(_) => None,
        }
    }

    /// The version whose scores count, given the newest version; 0 if no version counts.
    #[must_use]
    pub const fn live(self, newest: u32) -> u32 {
        match self {
            Self::Pinned(number) => number,
            Self::Shadow(number) if number == newest => newest.saturating_sub(1),
            Self::Latest | Self::Shadow(_) => newest,
        }
    }
}

impl fmt::Display for VersionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Pinned(number) => write!(f, "pinned:{number}"),
            Self::Shadow(number) => write!(f, "shadow:{number}"),
        }
    }
}

impl FromStr for VersionPolicy {
    type Err = InvalidVersionPolicy;

    fn from_str(raw: &str) -> Result<Self, InvalidVersionPolicy> {
        if raw == "latest" {
            return Ok(Self::Latest);
        }
        let (policy, number) = raw.split_once(':').ok_or(InvalidVersionPolicy)?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|number| is_number && 0 < *number);
        match (policy, number) {
            ("pinned", Some(number)) => Ok(Self::Pinned(number)),
            ("shadow", Some(number)) => Ok(Self::Shadow(number)),
            _ => Err(InvalidVersionPolicy),
        }
    }
}

impl Serialize for VersionPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VersionPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = String::deserialize(deserializer)?;
        raw.parse().map_err(D::Error::custom)
    }
}

/// One evaluator in one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Its id.
    pub id: AssignmentId,
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// The version policy.
    pub version: VersionPolicy,
    /// Overrides the version's default mapping.
    pub mapping: Option<Vec<Mapping>>,
    /// Targets that arrive before are skipped, because a budget is exhausted.
    pub skipped_until: Option<Timestamp>,
}

/// The target of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// One observation of a trace.
    Observation(TraceId, ObservationId),
    /// A whole trace.
    Trace(TraceId),
    /// All traces of a session.
    Session(SessionId),
    /// All results of a run of an experiment.
    Run(String),
}

impl Target {
    /// A trace, or an observation of it.
    #[must_use]
    pub fn within(trace: TraceId, observation: Option<ObservationId>) -> Self {
        match observation {
            Some(observation) => Self::Observation(trace, observation),
            None => Self::Trace(trace),
        }
    }

    /// The kind of this target.
    #[must_use]
    pub const fn kind(&self) -> TargetKind {
        match self {
            Self::Observation(..) => TargetKind::Observation,
            Self::Trace(_) => TargetKind::Trace,
            Self::Session(_) => TargetKind::Session,
            Self::Run(_) => TargetKind::Run,
        }
    }

    /// Whether it consists of several observations, so that more may arrive after it was scored.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        !matches!(self, Self::Observation(..))
    }

    /// The trace that it is, or belongs to.
    #[must_use]
    pub const fn trace(&self) -> Option<&TraceId> {
        match self {
            Self::Observation(trace, _) | Self::Trace(trace) => Some(trace),
            Self::Session(_) | Self::Run(_) => None,
        }
    }

    /// The observation that it is.
    #[must_use]
    pub const fn observation(&self) -> Option<&ObservationId> {
        match self {
            Self::Observation(_, observation) => Some(observation),
            Self::Trace(_) | Self::Session(_) | Self::Run(_) => None,
        }
    }

    /// The session that it is.
    #[must_use]
    pub const fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Session(session) => Some(session),
            Self::Observation(..) | Self::Trace(_) | Self::Run(_) => None,
        }
    }

    /// The id of the run that it is.
    #[must_use]
    pub fn run(&self) -> Option<&str> {
        match self {
            Self::Run(run) => Some(run),
            Self::Observation(..) | Self::Trace(_) | Self::Session(_) => None,
        }
    }

    /// The id that decides sampling: observations are sampled with their trace (evaluation.md 1.13).
    #[must_use]
    pub fn sampled_by(&self) -> &str {
        match self {
            Self::Observation(trace, _) | Self::Trace(trace) => trace.as_str(),
            Self::Session(session) => session.as_str(),
            Self::Run(run) => run,
        }
    }
}

named_enum!(
    /// States of an execution (evaluation.md 1.6).
    ExecutionState {
        Pending = "pending",
        Running = "running",
        Delayed = "delayed",
        Held = "held",
        Completed = "completed",
        Skipped = "skipped",
        Failed = "failed",
        Cancelled = "cancelled",
    }
);

impl ExecutionState {
    /// No further transition by itself.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Skipped | Self::Failed | Self::Cancelled)
    }
}

named_enum!(
    /// The reason why a target counted as complete.
    CompletionReason {
        Ended = "ended",
        RootEnded = "root_ended",
        Marker = "marker",
        Quiet = "quiet",
        /// All items of a run have a result.
        AllItems = "all_items",
        MaxWait = "max_wait",
    }
);

named_enum!(
    /// The origin of an execution (evaluation.md 1.7).
    ExecutionOrigin {
        Rule = "rule",
        Job = "job",
        Experiment = "experiment",
        Backtest = "backtest",
    }
);

named_enum!(
    /// The priority class of an execution within its project (evaluation.md 1.10).
    ExecutionClass {
        Experiment = "experiment",
        Manual = "manual",
        Continuous = "continuous",
        Cron = "cron",
        Backfill = "backfill",
    }
);

impl ExecutionClass {
    /// Its share of the turns of its project.
    #[must_use]
    pub const fn weight(self) -> u32 {
        match self {
            Self::Experiment => 8,
            Self::Manual => 6,
            Self::Continuous => 4,
            Self::Cron => 2,
            Self::Backfill => 1,
        }
    }
}

named_enum!(
    /// Separate queues for executions that wait for a model and for those that only compute, so that the former do not
    /// delay the latter.
    Lane {
        Code = "code",
        Model = "model",
    }
);

/// The queue of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKind {
    /// The resource it waits for.
    pub lane: Lane,
    /// Its priority class.
    pub class: ExecutionClass,
}

/// A new execution.
#[derive(Clone, Debug, PartialEq)]
pub struct NewExecution {
    /// First 32 hex digits of SHA-256 of its key.
    pub id: ExecutionId,
    /// Its origin.
    pub origin: ExecutionOrigin,
    /// The rule.
    pub rule_id: RuleId,
    /// The assignment in it.
    pub assignment_id: AssignmentId,
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Its target.
    pub target: Target,
    /// The shadow version it runs; `None` for the version whose scores count at run time.
    pub shadow: Option<u32>,
    /// 0, incremented by each rescoring.
    pub generation: u32,
    /// Sampling rate in force.
    pub inclusion_probability: f64,
    /// The reason why the target was complete.
    pub completion: CompletionReason,
    /// Observations of the trace when the execution was created.
    pub n_observations: u32,
    /// Rejected by conditions on scores, selected for audit.
    pub is_audit: bool,
}

named_enum!(
    /// The reason why an execution waits or ends without a call of its evaluator.
    NoCallReason {
        /// The target cannot be read, or was deleted.
        TargetMissing = "target_missing",
        /// The mapping finds no value for a variable.
        MissingVariable = "missing_variable",
        /// The rule no longer uses the evaluator.
        AssignmentRemoved = "assignment_removed",
        /// The rule was deleted.
        RuleDeleted = "rule_deleted",
        /// The target is a trace of the server's own executions.
        LoopGuard = "loop_guard",
        /// Its rule or evaluator is paused.
        Paused = "paused",
        /// It exceeded the maximum hold time.
        HeldTooLong = "held_too_long",
    }
);

/// The reason why an execution has no score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndReason {
    /// Failure of its call.
    Called(FailureClass),
    /// No call was made.
    Uncalled(NoCallReason),
}

impl EndReason {
    /// The name in the API and in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Called(class) => class.as_str(),
            Self::Uncalled(reason) => reason.as_str(),
        }
    }
}

impl std::str::FromStr for EndReason {
    type Err = crate::named::UnknownName;

    fn from_str(raw: &str) -> Result<Self, Self::Err> {
        let called = raw.parse().map(Self::Called);
        called.or_else(|_| raw.parse().map(Self::Uncalled))
    }
}

impl From<FailureClass> for EndReason {
    fn from(class: FailureClass) -> Self {
        Self::Called(class)
    }
}

impl From<NoCallReason> for EndReason {
    fn from(reason: NoCallReason) -> Self {
        Self::Uncalled(reason)
    }
}

/// The reason why an attempt produced no scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFailure {
    /// Class (evaluation.md 1.8).
    pub class: EndReason,
    /// Human-readable.
    pub message: String,
}

impl AttemptFailure {
    /// A failure with a human-readable message.
    #[must_use]
    pub fn new(class: impl Into<EndReason>, message: &str) -> Self {
        Self { class: class.into(), message: message.to_owned() }
    }
}

/// A stored attempt without scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// From 1; starts again at 1 after a requeue.
    pub number: u32,
    /// End time.
    pub ended_at: Timestamp,
    /// Class and message.
    pub failure: AttemptFailure,
    /// The version used.
    pub version: Option<EvaluatorVersionId>,
    /// CPU time in the guest.
    pub cpu_us: u64,
}

/// A stored execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    /// Sequence number in the order of creation.
    pub seq: i64,
    /// As created.
    pub made: NewExecution,
    /// The tenant.
    pub project: ProjectId,
    /// State.
    pub state: ExecutionState,
    /// Attempts so far.
    pub attempts: u32,
    /// Version used, once it ran.
    pub evaluator_version_id: Option<EvaluatorVersionId>,
    /// Class of the last failure, or the reason of a skip.
    pub error_class: Option<EndReason>,
    /// Human-readable message.
    pub error_message: Option<String>,
    /// Due time of a delayed execution.
    pub due_at: Timestamp,
    /// Creation time.
    pub created_at: Timestamp,
    /// Start of the first attempt.
    pub first_attempt_at: Option<Timestamp>,
    /// Reached its final state.
    pub finished_at: Option<Timestamp>,
    /// Observations that arrived after it had read the target.
    pub n_late: u32,
    /// The firing of the schedule of its rule for which it waits or waited.
    pub firing_at: Option<Timestamp>,
}

impl Execution {
    /// The firing at which its first attempt is due. It has not read its target yet.
    #[must_use]
    pub fn awaited_firing(&self) -> Option<Timestamp> {
        let is_delayed = self.state == ExecutionState::Delayed;
        self.firing_at.filter(|at| is_delayed && *at == self.due_at)
    }
}
