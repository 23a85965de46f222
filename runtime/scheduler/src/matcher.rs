//! From change rows and due watches to executions.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use perpend_domain::evaluation::{
    Execution, ExecutionClass, ExecutionState, Lane, QueueKind, Rule, Target, TargetKind,
};
use perpend_domain::ids::{ExecutionId, ObservationId, ProjectId, RuleId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::score::{NewScore, Subject};
use perpend_domain::telemetry::{IngestChange, Progress};
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use perpend_executions::{Lease, MatchBatch, NewWatch, PlannedExecution, RuleCount, Watch};
use perpend_storage::MatchOutcome;

use crate::catalog::{Catalog, PreparedRule};
use crate::completeness::{Completion, observation_completion};
use crate::decide::{CompleteTarget, Decision, Verdict, decide, is_item};
use crate::deps::{Breakpoint, Error, Inner};
use crate::fair_queue::Seats;
use crate::rule_dependencies::{OpenRules, is_open, next_poll};
use crate::target::ObservationRow;
use crate::work::Batch;

/// Ingest requests per transaction.
const N_TOUCHED: u32 = 32;
/// Approximate number of their observations. The rest waits for the next transaction.
const N_OBSERVATIONS: usize = 10_000;
/// Watches per transaction.
const N_WATCHES: u32 = 256;
/// Consecutive passes that are discarded because the catalog changed in the meantime.
const MAX_OUTDATED: u32 = 8;

/// Decisions of one pass.
pub(crate) struct Pass<'p> {
    pub(crate) now: Timestamp,
    pub(crate) catalog: &'p Catalog,
    /// `IngestChange` rows that are consumed.
    touched: Vec<i64>,
    batch: MatchBatch,
    counts: HashMap<(ProjectId, RuleId, &'static str), u64>,
    /// Executions in the batch: a target may change while its watch is due.
    planned: HashSet<ExecutionId>,
    /// Runs with a new result, with the time of the last one.
    pub(crate) runs: BTreeMap<(ProjectId, String), Timestamp>,
}

/// An observation to decide: it has changed, or its watch is due.
#[derive(Clone, Copy)]
struct ObservationChange<'w> {
    /// The first and the last change in this pass.
    since: Timestamp,
    at: Timestamp,
    watch: Option<&'w Watch>,
}

impl ObservationChange<'_> {
    /// The time at which its decision was due: that of the change, or of its watch.
    fn due_at(&self) -> Timestamp {
        self.watch.map_or(self.at, |watch| watch.due_at)
    }

    /// Whether the last examination decided a rule for which the target was complete by then.
    fn was_decided(&self, rule: &Rule, completion: Completion) -> bool {
        self.watch.is_some_and(|watch| {
            // A rule that was changed since may wait for less.
            let is_changed = watch.looked_at < rule.updated_at;
            let existed_then = rule.created_at <= watch.looked_at;
            completion.at <= watch.looked_at
                && !(is_changed && existed_then)
                && !watch.waiting.contains(&rule.id)
        })
    }
}

/// Changes of observations of one project.
type ObservationChanges<'w> = BTreeMap<(TraceId, ObservationId), ObservationChange<'w>>;

/// Data of a trace that the rules of a pass read.
#[derive(Default)]
pub(crate) struct TraceData {
    pub(crate) trace: Option<Trace>,
    pub(crate) progress: Option<Progress>,
    /// Scores of the trace and its observations.
    pub(crate) scores: Vec<NewScore>,
    /// Executions, if rules wait for each other.
    pub(crate) executions: Vec<Execution>,
}

impl TraceData {
    /// The scores of one observation.
    pub(crate) fn scores_on(&self, own: &Observation) -> Vec<NewScore> {
        let is_on_it = |score: &&NewScore| match &score.subject {
            Subject::Observation(_, id) => *id == own.id,
            _ => false,
        };
        self.scores.iter().filter(is_on_it).cloned().collect()
    }
}

/// An observation to be decided, with the data of its trace that rules read.
#[derive(Clone, Copy)]
struct ObservationData<'a> {
    row: ObservationRow<'a>,
    progress: Option<&'a Progress>,
    executions: &'a [Execution],
}

/// The change rows of one transaction, at least one.
fn bounded(mut touched: Vec<IngestChange>) -> Vec<IngestChange> {
    let mut n_observations = 0;
    let mut n_rows = 0;
    for row in &touched {
        n_observations += row.observations.len() + row.scored.len() + row.linked.len();
        if 0 < n_rows && N_OBSERVATIONS < n_observations {
            break;
        }
        n_rows += 1;
    }
    touched.truncate(n_rows);
    touched
}

impl Inner {
    /// Handles some change rows and due watches. Executions for which a slot is free start claimed and are
    /// the second part of the result. `false` if there was nothing to do.
    pub(crate) async fn match_once(&self) -> Result<(bool, Vec<Batch>), Error> {
        let now = self.deps.clock.now();
        let store = &self.deps.store;
        let touched = bounded(store.telemetry.touched(N_TOUCHED).await?);
        let mut watches = store.ledger.due_watches(now, N_WATCHES).await?;
        if touched.is_empty() && watches.is_empty() {
            return Ok((false, Vec::new()));
        }
        self.reach(Breakpoint::Read).await?;
        // After the change log: the catalog contains every rule that existed when one of these rows was
        // written.
        let catalog = self.catalog.current(store).await?;
        let mut pass = Pass {
            now,
            catalog: &catalog,
            touched: touched.iter().map(|row| row.seq).collect(),
            batch: MatchBatch::default(),
            counts: HashMap::new(),
            planned: HashSet::new(),
            runs: BTreeMap::new(),
        };
        self.match_touched(&mut pass, &touched).await?;
        self.match_scored(&mut pass, &touched).await?;
        self.match_linked(&mut pass, &touched).await?;
        pass.watch_runs();
        // A change replaces the watch.
        let replaced = pass.watched();
        watches.retain(|watch| !replaced.contains(&key(watch)));
        self.match_watches(&mut pass, watches).await?;
        self.reach(Breakpoint::Decided).await?;
        let work = self.commit(pass).await?;
        Ok((true, work))
    }

    async fn match_touched(
        &self,
        pass: &mut Pass<'_>,
        touched: &[IngestChange],
    ) -> Result<(), Error> {
        let mut observations: HashMap<&ProjectId, ObservationChanges<'_>> = HashMap::new();
        let mut traces: HashMap<&ProjectId, HashMap<&TraceId, Timestamp>> = HashMap::new();
        for row in touched {
            let at = row.received_at;
            let catalog = pass.catalog;
            if !catalog.observation_rules(&row.project).is_empty()
                || catalog.has_run_rules(&row.project)
            {
                let changes = observations.entry(&row.project).or_default();
                for key in &row.observations {
                    let (since, watch) = (at, None);
                    let new = ObservationChange { since, at, watch };
                    let change = changes.entry(key.clone()).or_insert(new);
                    change.since = change.since.min(at);
                    change.at = change.at.max(at);
                }
            }
            if catalog.has_whole_rules(&row.project) {
                let changed = traces.entry(&row.project).or_default();
                for (trace, _) in &row.observations {
                    let last = changed.entry(trace).or_insert(at);
                    *last = at.max(*last);
                }
            }
        }
        for (project, changes) in observations {
            self.match_observations(pass, project, &changes).await?;
        }
        for (project, changed) in traces {
            self.watch_traces(pass, project, &changed).await?;
            self.watch_sessions(pass, project, &changed).await?;
        }
        Ok(())
    }

    /// Decides observations of one project.
    async fn match_observations(
        &self,
        pass: &mut Pass<'_>,
        project: &ProjectId,
        changes: &ObservationChanges<'_>,
    ) -> Result<(), Error> {
        let rules = pass.catalog.observation_rules(project);
        let reads_content = rules.iter().any(|rule| rule.reads_content);
        let keys: Vec<_> = changes.keys().cloned().collect();
        let mut found = self.for_filters(project, &keys, reads_content).await?;
        let has_run_rules = pass.catalog.has_run_rules(project);
        if has_run_rules || rules.iter().any(|rule| rule.reads_experiment) {
            self.attach_links(project, found.iter_mut().collect()).await?;
        }
        let traces = self.of_traces(project, &rules, &found).await?;
        for observation in &found {
            let key = (observation.trace_id.clone(), observation.id.clone());
            let Some(change) = changes.get(&key) else {
                continue;
            };
            if has_run_rules && change.watch.is_none() {
                pass.note_result(project, observation, change.at);
            }
            if rules.is_empty() {
                continue;
            }
            let of_trace = traces.get(&observation.trace_id);
            let progress = of_trace.and_then(|of_trace| of_trace.progress.as_ref());
            if let Some(from) = progress.and_then(|progress| progress.root_ended_at)
                && change.watch.is_none()
                && change.since <= from
                && observation.is_root()
                && !observation.is_trace_record()
            {
                // Other observations of its trace may wait for it.
                let trace = (project.clone(), key.0);
                pass.batch.rooted.insert(trace, from);
            }
            // An open observation changes again when its end arrives. The record of a trace is not
            // an observation.
            if observation.end.is_some() && !observation.is_trace_record() {
                let scores = of_trace.map(|of_trace| of_trace.scores_on(observation));
                let seen = ObservationData {
                    row: ObservationRow {
                        observation,
                        trace: of_trace.and_then(|of_trace| of_trace.trace.as_ref()),
                        scores: scores.as_deref().unwrap_or_default(),
                    },
                    progress,
                    executions: of_trace.map_or(&[], |of_trace| &of_trace.executions),
                };
                pass.take_observation(&rules, project, seen, *change);
            }
        }
        Ok(())
    }

    /// The data of the traces of these observations that rules read; empty if they read none.
    async fn of_traces(
        &self,
        project: &ProjectId,
        rules: &[&Arc<PreparedRule>],
        observations: &[Observation],
    ) -> Result<HashMap<TraceId, TraceData>, Error> {
        let reads_trace = rules.iter().any(|rule| rule.reads_trace);
        let reads_scores = rules.iter().any(|rule| rule.reads_scores());
        let waits = rules.iter().any(|rule| !rule.rule.after.is_empty());
        if !(reads_trace || reads_scores || waits) {
            return Ok(HashMap::new());
        }
        let store = &self.deps.store;
        let ids: BTreeSet<&TraceId> = observations.iter().map(|own| &own.trace_id).collect();
        let ids: Vec<TraceId> = ids.into_iter().cloned().collect();
        let mut traces: HashMap<TraceId, TraceData> = HashMap::with_capacity(ids.len());
        for id in &ids {
            let of_trace = traces.entry(id.clone()).or_default();
            if reads_trace {
                of_trace.trace = store.telemetry.target_trace(project, id).await?;
            }
            if waits {
                of_trace.executions = store.ledger.trace_executions(project, id).await?;
            }
            of_trace.scores = self.trace_scores(project, id, reads_scores).await?;
        }
        if reads_trace {
            let progress = store.telemetry.trace_progress(project, &ids).await?;
            for (id, progress) in progress {
                traces.entry(id).or_default().progress = Some(progress);
            }
        }
        Ok(traces)
    }

    async fn match_watches(&self, pass: &mut Pass<'_>, watches: Vec<Watch>) -> Result<(), Error> {
        let n_before = pass.batch.watches.len();
        let mut observations: BTreeMap<&ProjectId, ObservationChanges<'_>> = BTreeMap::new();
        for watch in &watches {
            match &watch.target {
                Target::Observation(trace, observation) => {
                    let change = ObservationChange {
                        since: watch.changed_at,
                        at: watch.changed_at,
                        watch: Some(watch),
                    };
                    let changes = observations.entry(&watch.project).or_default();
                    changes.insert((trace.clone(), observation.clone()), change);
                }
                Target::Trace(_) | Target::Session(_) | Target::Run(_) => {
                    self.match_whole(pass, watch).await?;
                }
            }
        }
        for (project, changes) in observations {
            self.match_observations(pass, project, &changes).await?;
        }
        let moved = pass.batch.watches.iter().skip(n_before);
        let moved: HashSet<_> = moved.map(|new| key(&new.watch)).collect();
        for watch in &watches {
            if !moved.contains(&key(watch)) {
                // The target was deleted.
                pass.move_watch(watch, None, Vec::new());
            }
        }
        Ok(())
    }

    /// The scores of a trace, if a filter reads them.
    pub(crate) async fn trace_scores(
        &self,
        project: &ProjectId,
        id: &TraceId,
        is_asked_for: bool,
    ) -> Result<Vec<NewScore>, perpend_db::Error> {
        if !is_asked_for {
            return Ok(Vec::new());
        }
        let telemetry = &self.deps.store.telemetry;
        let stored = telemetry.scores_of_traces(project, std::slice::from_ref(id));
        Ok(stored.await?.into_iter().map(|score| score.written).collect())
    }

    /// Writes the decisions. Executions for which a slot is free are claimed at once.
    async fn commit(&self, pass: Pass<'_>) -> Result<Vec<Batch>, Error> {
        let Pass { now, catalog, touched, mut batch, counts, .. } = pass;
        // If the catalog changes permanently, no pass would commit. The decision is valid anyway because the
        // catalog was read after the change log.
        let n_outdated = self.n_outdated.load(Ordering::Relaxed);
        let must_be_current = n_outdated < MAX_OUTDATED || !catalog.is_consistent();
        batch.decided_by = must_be_current.then_some(catalog.revision());
        batch.counts = counts
            .into_iter()
            .map(|((project, rule, reason), n)| (project, rule, reason, n))
            .collect();
        let lease = self.new_lease(now);
        let mut seats: BTreeMap<(ProjectId, QueueKind), Seats> = BTreeMap::new();
        let at_once = batch.executions.iter_mut().filter(|each| each.firing_at.is_none());
        for each in at_once {
            if let Some(seat) = self.turns.take(&each.project, each.kind) {
                each.is_leased = true;
                match seats.entry((each.project.clone(), each.kind)) {
                    Entry::Vacant(none) => {
                        none.insert(seat);
                    }
                    Entry::Occupied(mut some) => some.get_mut().join(seat),
                }
            }
        }
        let made = self.deps.store.commit_matches(&touched, &batch, lease, now).await?;
        let made = match made {
            MatchOutcome::Made(made) => made,
            // The next step reads again.
            MatchOutcome::Overtaken => return Ok(Vec::new()),
            MatchOutcome::Outdated => {
                self.n_outdated.fetch_add(1, Ordering::Relaxed);
                return Ok(Vec::new());
            }
        };
        self.n_outdated.store(0, Ordering::Relaxed);
        self.reach(Breakpoint::Made).await?;
        let mut leased: BTreeMap<(ProjectId, QueueKind), Vec<Execution>> = BTreeMap::new();
        for (each, seq) in batch.executions.into_iter().zip(made) {
            let Some(seq) = seq.filter(|_| each.is_leased) else {
                continue;
            };
            let key = (each.project.clone(), each.kind);
            let execution = claimed_execution(seq, each, lease, now);
            leased.entry(key).or_default().push(execution);
        }
        let works = leased.into_iter().filter_map(|(key, leased)| {
            let seats = seats.remove(&key)?;
            Some(self.split(leased, lease, seats))
        });
        Ok(works.flatten().collect())
    }
}

/// An execution that was made and claimed at once.
fn claimed_execution(
    seq: i64,
    making: PlannedExecution,
    lease: Lease,
    now: Timestamp,
) -> Execution {
    Execution {
        seq,
        made: making.execution,
        project: making.project,
        state: ExecutionState::Running,
        attempts: 0,
        evaluator_version_id: None,
        error_class: None,
        error_message: None,
        due_at: lease.until,
        created_at: now,
        first_attempt_at: None,
        finished_at: None,
        n_late: 0,
        firing_at: None,
    }
}

fn key(watch: &Watch) -> (ProjectId, Target) {
    (watch.project.clone(), watch.target.clone())
}

/// The earlier of an optional time and another one.
pub(crate) fn earliest(known: Option<Timestamp>, at: Timestamp) -> Option<Timestamp> {
    Some(known.map_or(at, |known| known.min(at)))
}

/// The executions of a rule over a target.
pub(crate) fn of_rule<'e>(
    all: &'e [Execution],
    rule: &RuleId,
    target: &Target,
) -> Vec<&'e Execution> {
    let is_of_rule = |execution: &&Execution| {
        execution.made.rule_id == *rule && execution.made.target == *target
    };
    all.iter().filter(is_of_rule).collect()
}

/// The firing at which a rule with a schedule evaluates a target that was due to be decided at a time; past if the target
/// is decided later than that. `None` without a schedule.
fn firing_of(rule: &Rule, complete: &CompleteTarget<'_>, due_at: Timestamp) -> Option<Timestamp> {
    let schedule = rule.schedule.as_ref()?;
    // The rule as it is now exists only since its last change.
    let due_at = due_at.max(complete.completion.at).max(rule.updated_at);
    schedule.next_after(due_at.min(complete.now))
}

impl Pass<'_> {
    /// Decides one ended observation for the rules for which it is complete, and sets a watch for the others.
    fn take_observation(
        &mut self,
        rules: &[&Arc<PreparedRule>],
        project: &ProjectId,
        seen: ObservationData<'_>,
        change: ObservationChange<'_>,
    ) {
        let own = seen.row.observation;
        let target = Target::Observation(own.trace_id.clone(), own.id.clone());
        let (mut open, mut next, mut waiting) = (OpenRules::default(), None, Vec::new());
        for rule in rules {
            // Other observations are not even counted as refused.
            if rule.rule.target == TargetKind::Experiment && !is_item(&seen.row) {
                continue;
            }
            let trace = seen.progress.filter(|_| rule.waits_for_trace(own));
            let completion = observation_completion(own, change.at, &rule.rule.timing, trace);
            if self.now < completion.at {
                open.note(&rule.rule);
                next = earliest(next, completion.at);
                if self.catalog.awaited().contains(&rule.rule.id) {
                    waiting.push(rule.rule.id.clone());
                }
                continue;
            }
            let existing = of_rule(seen.executions, &rule.rule.id, &target);
            if is_open(&existing) {
                open.note(&rule.rule);
            }
            if change.was_decided(&rule.rule, completion) {
                continue;
            }
            if open.keep_waiting(&rule.rule) {
                open.note(&rule.rule);
                next = earliest(next, next_poll(self.now, completion.at));
                waiting.push(rule.rule.id.clone());
                continue;
            }
            let complete = CompleteTarget {
                project,
                target: &target,
                environment: &own.environment,
                row: &seen.row,
                completion,
                n_observations: 1,
                last_seen: change.at,
                now: self.now,
            };
            if self.take(rule, &complete, &existing, change.due_at()) {
                open.note(&rule.rule);
            }
        }
        // Another change may have left a watch whose wait is over.
        let waits =
            |rule: &Rule| !rule.after.is_empty() || rule.timing.settle_ms.is_some_and(|ms| 0 < ms);
        let may_be_watched =
            || own.is_in_parts || rules.iter().any(|own| own.reads_trace || waits(&own.rule));
        match (change.watch, next) {
            (Some(watch), next) => self.move_watch(watch, next, waiting),
            (None, None) if !may_be_watched() => {}
            (None, next) => self.batch.watches.push(NewWatch {
                watch: Watch {
                    project: project.clone(),
                    target,
                    began_at: change.at,
                    changed_at: change.at,
                    looked_at: self.now,
                    due_at: next.unwrap_or(NewWatch::NEVER),
                    waiting,
                },
                was_due_at: None,
            }),
        }
    }

    /// Decides and records the result for a target that was due to be decided at `due_at`. Returns whether an execution is
    /// made that has not ended.
    pub(crate) fn take(
        &mut self,
        rule: &PreparedRule,
        complete: &CompleteTarget<'_>,
        existing: &[&Execution],
        due_at: Timestamp,
    ) -> bool {
        let verdicts = match decide(rule, complete, existing) {
            Decision::Refused(refusal) => {
                self.count(complete.project, rule, refusal.reason());
                return false;
            }
            Decision::Taken { verdicts, .. } => verdicts,
        };
        self.count(complete.project, rule, RuleCount::SAMPLED);
        let mut is_made = false;
        for decided in verdicts {
            match decided.verdict {
                Verdict::Make(made) if !self.planned.insert(made.id.clone()) => {
                    self.count(complete.project, rule, "duplicate");
                }
                Verdict::Make(execution) => {
                    is_made |= execution.shadow.is_none();
                    let firing_at = firing_of(&rule.rule, complete, due_at);
                    let evaluator = rule.assignment(&execution.evaluator_id, execution.shadow);
                    // Counted when it is inserted or found to exist.
                    self.batch.executions.push(PlannedExecution {
                        project: complete.project.clone(),
                        kind: QueueKind {
                            lane: evaluator.map_or(Lane::Code, |each| each.evaluator.lane()),
                            class: match firing_at {
                                Some(_) => ExecutionClass::Cron,
                                None => ExecutionClass::Continuous,
                            },
                        },
                        is_leased: false,
                        firing_at,
                        execution: *execution,
                    });
                }
                Verdict::Duplicate(..) => self.count(complete.project, rule, "duplicate"),
                Verdict::OverBudget(..) => {
                    self.count(complete.project, rule, RuleCount::BUDGET);
                }
                Verdict::Late(id, n_late) => {
                    self.count(complete.project, rule, "late");
                    self.batch.late.push((complete.project.clone(), id, n_late));
                }
            }
        }
        is_made
    }

    /// Counts a target of a rule under a reason.
    pub(crate) fn count(&mut self, project: &ProjectId, rule: &PreparedRule, reason: &'static str) {
        let key = (project.clone(), rule.rule.id.clone(), reason);
        *self.counts.entry(key).or_default() += 1;
    }

    /// The targets whose watches this pass has set or moved so far. None may occur twice: the second write
    /// would not find the watch that was read.
    pub(crate) fn watched(&self) -> HashSet<(ProjectId, Target)> {
        let watches = self.batch.watches.iter();
        watches.map(|new| key(&new.watch)).collect()
    }

    /// Lets these rules examine a target whose watch this pass has set already; `false` if it has set none.
    pub(crate) fn add_waiting(
        &mut self,
        project: &ProjectId,
        target: &Target,
        rules: &[RuleId],
    ) -> bool {
        let mut watches = self.batch.watches.iter_mut();
        let is_it =
            |new: &&mut NewWatch| new.watch.project == *project && new.watch.target == *target;
        let Some(new) = watches.find(is_it) else {
            return false;
        };
        for id in rules {
            if !new.watch.waiting.contains(id) {
                new.watch.waiting.push(id.clone());
            }
        }
        new.watch.due_at = new.watch.due_at.min(self.now);
        true
    }

    /// Makes the watch that this pass has set for the target due at `due_at` at the latest; `false` if it has set no
    /// watch.
    pub(crate) fn bring_forward(
        &mut self,
        project: &ProjectId,
        target: &Target,
        due_at: Timestamp,
    ) -> bool {
        let mut watches = self.batch.watches.iter_mut();
        let is_it =
            |new: &&mut NewWatch| new.watch.project == *project && new.watch.target == *target;
        let Some(new) = watches.find(is_it) else {
            return false;
        };
        new.watch.due_at = new.watch.due_at.min(due_at);
        true
    }

    pub(crate) fn set_watch(&mut self, new: NewWatch) {
        self.batch.watches.push(new);
    }

    pub(crate) fn move_watch(
        &mut self,
        watch: &Watch,
        next: Option<Timestamp>,
        waiting: Vec<RuleId>,
    ) {
        self.batch.watches.push(NewWatch {
            watch: Watch {
                looked_at: self.now,
                due_at: next.unwrap_or(NewWatch::NEVER),
                waiting,
                ..watch.clone()
            },
            was_due_at: Some(watch.due_at),
        });
    }
}
