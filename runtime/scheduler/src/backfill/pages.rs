//! Pages of stored targets, and the executions that a backfill makes over them.

use std::collections::{BTreeSet, HashMap};

use perpend_domain::backfill::{BackfillCounts, BackfillMode, BackfillPlan};
use perpend_domain::evaluation::{
    Execution, ExecutionClass, ExecutionState, Lane, NewExecution, QueueKind, Target, TargetKind,
};
use perpend_domain::filter::{Column, Condition, Filter, OBSERVATIONS, Order, TRACES, Test, find};
use perpend_domain::identity::ExecutionKey;
use perpend_domain::ids::{EvaluatorId, ExecutionId, ObservationId, SessionId, TraceId};
use perpend_domain::list::{Cursor, ListPosition};
use perpend_domain::observation::Observation;
use perpend_domain::telemetry::{
    GroupKey, GroupQuery, ObservationCursor, ObservationQuery, Progress, StoredObservation,
};
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::{TraceOrder, TraceQuery};
use perpend_executions::PlannedExecution;
use perpend_storage::Bounds;
use serde_json::{Value, json};

use super::BackfillScan;
use crate::completeness::{completion, observation_completion};
use crate::decide::{CompleteTarget, Decision, Verdict, decide};
use crate::deps::Inner;
use crate::matcher::TraceData;
use crate::target::ObservationRow;
use crate::whole_targets::WholeTarget;

/// Targets of one page; fewer if content has to be read for each.
const PAGE: u32 = 500;
const PAGE_READ: u32 = 50;
/// Content bytes of one page of observations.
const PAGE_BYTES: usize = 8 << 20;

/// A page of examined targets.
#[derive(Debug)]
pub(super) struct BackfillPage {
    now: Timestamp,
    /// Most targets with a new execution.
    max_items: u64,
    /// The executions to make.
    pub(super) executions: Vec<PlannedExecution>,
    /// Existing executions that wait for a firing and are to start now.
    pub(super) hastened: Vec<(i64, ExecutionId)>,
    /// Without the number of executions.
    pub(super) counts: BackfillCounts,
    /// The position after the last examined target, at first that before the page; absent at the start of the range.
    pub(super) cursor: Option<String>,
    /// Start of the last examined target.
    pub(super) reached_at: Option<Timestamp>,
    /// No target follows.
    pub(super) is_end: bool,
}

/// Targets that started in the range of a backfill.
pub(super) fn range(columns: &'static [Column], name: &str, plan: &BackfillPlan) -> Filter {
    let condition =
        |order, at| Condition { column: find(columns, name), test: Test::Time(order, at) };
    Filter {
        conditions: vec![condition(Order::AtLeast, plan.from), condition(Order::Less, plan.to)],
    }
}

fn observation_cursor(own: &StoredObservation) -> String {
    let own = &own.observation;
    json!([own.start.as_micros(), own.trace_id, own.id]).to_string()
}

fn parsed(cursor: &str) -> Value {
    serde_json::from_str(cursor).unwrap_or_default()
}

fn read_observation_cursor(cursor: &str) -> Option<ObservationCursor> {
    let parts = parsed(cursor);
    Some(ObservationCursor {
        start: Timestamp::from_micros(parts[0].as_i64()?),
        trace_id: TraceId::new(parts[1].as_str()?).ok()?,
        id: ObservationId::new(parts[2].as_str()?).ok()?,
    })
}

fn read_group_cursor(cursor: &str) -> Option<Cursor> {
    let parts = parsed(cursor);
    let at = Timestamp::from_micros(parts[0].as_i64()?);
    Some(Cursor::new(at, parts[1].as_str()?.to_owned()))
}

impl BackfillScan<'_> {
    fn page_len(&self) -> u32 {
        match self.rule.reads_content {
            true => PAGE_READ,
            false => PAGE,
        }
    }

    /// The execution of an evaluator that waits for a firing, if the targets were chosen by a user.
    fn awaiting<'e>(
        &self,
        evaluator: &EvaluatorId,
        existing: &[&'e Execution],
    ) -> Option<&'e Execution> {
        let is_chosen = self.class == ExecutionClass::Manual;
        let mut existing = existing.iter().copied().filter(|_| is_chosen);
        existing.find(|each| {
            each.made.evaluator_id == *evaluator
                && each.made.shadow.is_none()
                && each.awaited_firing().is_some()
        })
    }

    /// The execution of an evaluator over a target, given the existing ones of the rule; `None` if the mode leaves the
    /// target out, or an execution has not ended.
    fn execution(&self, mut new: NewExecution, existing: &[&Execution]) -> Option<NewExecution> {
        let existing = existing.iter().copied().filter(|each| {
            each.made.evaluator_id == new.evaluator_id && each.made.shadow.is_none()
        });
        let assignment = self.rule.assignment(&new.evaluator_id, None);
        let version = assignment.map(|each| &each.evaluator.evaluator.version.id);
        let has_result = |each: &Execution| {
            matches!(each.state, ExecutionState::Completed | ExecutionState::Skipped)
                && each.evaluator_version_id.as_ref() == version
        };
        let mut newest = None;
        for each in existing {
            let is_filled = self.plan.mode == BackfillMode::Fill && has_result(each);
            if is_filled || !each.state.is_final() {
                return None;
            }
            newest = newest.max(Some(each.made.generation));
        }
        if let Some(newest) = newest {
            new.generation = newest + 1;
            let rule = self.rule.rule.id.as_str();
            let (evaluator, target) = (&new.evaluator_id, &new.target);
            let key = ExecutionKey::live(self.project, rule, evaluator, target, new.generation);
            let id = key.execution_id();
            new.id = id;
        }
        Some(new)
    }
}

impl BackfillPage {
    pub(super) fn new(now: Timestamp, after: Option<String>, max_items: u64) -> Self {
        Self {
            now,
            max_items,
            executions: Vec::new(),
            hastened: Vec::new(),
            counts: BackfillCounts::default(),
            cursor: after,
            reached_at: None,
            is_end: false,
        }
    }

    const fn is_full(&self) -> bool {
        self.max_items <= self.counts.n_items
    }

    /// Notes an examined target.
    fn reach(&mut self, cursor: String, at: Timestamp) {
        self.counts.n_examined += 1;
        self.cursor = Some(cursor);
        self.reached_at = Some(at);
    }

    /// Decides about an observation that was last changed at a time.
    pub(super) fn take_observation(
        &mut self,
        scan: &BackfillScan<'_>,
        (own, changed_at): (&Observation, Timestamp),
        of_trace: Option<&TraceData>,
        existing: &[&Execution],
    ) {
        let progress = of_trace.and_then(|of_trace| of_trace.progress.as_ref());
        let progress = progress.filter(|_| scan.rule.waits_for_trace(own));
        let timing = &scan.rule.rule.timing;
        let completion = observation_completion(own, changed_at, timing, progress);
        if own.end.is_none() || self.now < completion.at {
            self.counts.n_left_out += 1;
            return;
        }
        let target = Target::Observation(own.trace_id.clone(), own.id.clone());
        let scores = of_trace.map(|of_trace| of_trace.scores_on(own));
        let row = ObservationRow {
            observation: own,
            trace: of_trace.and_then(|of_trace| of_trace.trace.as_ref()),
            scores: scores.as_deref().unwrap_or_default(),
        };
        let complete = CompleteTarget {
            project: scan.project,
            target: &target,
            environment: &own.environment,
            row: &row,
            completion,
            n_observations: 1,
            last_seen: changed_at,
            now: self.now,
        };
        self.take(scan, &complete, existing);
    }

    pub(super) fn take_whole(
        &mut self,
        scan: &BackfillScan<'_>,
        (target, whole, progress): (&Target, &WholeTarget, &Progress),
        existing: &[&Execution],
    ) {
        let timing = &scan.rule.rule.timing;
        let completion = completion(target.kind(), progress, timing, progress.first_seen);
        if self.now < completion.at {
            self.counts.n_left_out += 1;
            return;
        }
        let row = whole.row(completion);
        let of_target = (scan.project, target);
        let complete = whole.complete(of_target, &*row, (completion, progress), self.now);
        self.take(scan, &complete, existing);
    }

    /// Decides about a complete target as the matcher does.
    fn take(
        &mut self,
        scan: &BackfillScan<'_>,
        complete: &CompleteTarget<'_>,
        existing: &[&Execution],
    ) {
        let Decision::Taken { verdicts, .. } = decide(&scan.rule, complete, &[]) else {
            self.counts.n_refused += 1;
            return;
        };
        let n_before = self.executions.len() + self.hastened.len();
        let mut is_left_out = false;
        for decided in verdicts {
            match decided.verdict {
                Verdict::Make(new) => {
                    if let Some(own) = scan.awaiting(&new.evaluator_id, existing) {
                        self.hastened.push((own.seq, own.made.id.clone()));
                        continue;
                    }
                    let Some(execution) = scan.execution(*new, existing) else {
                        continue;
                    };
                    let used = scan.rule.assignment(&execution.evaluator_id, None);
                    self.executions.push(PlannedExecution {
                        project: scan.project.clone(),
                        kind: QueueKind {
                            lane: used.map_or(Lane::Code, |each| each.evaluator.lane()),
                            class: scan.class,
                        },
                        is_leased: false,
                        firing_at: None,
                        execution,
                    });
                }
                Verdict::OverBudget(_) => is_left_out = true,
                // Existing executions were not passed.
                Verdict::Duplicate(_) | Verdict::Late(..) => {}
            }
        }
        if n_before < self.executions.len() + self.hastened.len() {
            self.counts.n_items += 1;
        } else if is_left_out {
            self.counts.n_left_out += 1;
        } else {
            self.counts.n_present += 1;
        }
    }
}

/// Executions by target.
pub(super) fn by_target(executions: &[Execution]) -> HashMap<&Target, Vec<&Execution>> {
    let mut by_target: HashMap<&Target, Vec<&Execution>> = HashMap::new();
    for each in executions {
        by_target.entry(&each.made.target).or_default().push(each);
    }
    by_target
}

impl Inner {
    /// The page after a position, with executions over at most `max_items` targets.
    pub(super) async fn backfill_page(
        &self,
        scan: &BackfillScan<'_>,
        after: Option<String>,
        max_items: u64,
    ) -> Result<BackfillPage, perpend_db::Error> {
        let mut page = BackfillPage::new(self.deps.clock.now(), after, max_items);
        match scan.plan.target {
            TargetKind::Observation | TargetKind::Experiment => {
                Box::pin(self.page_of_observations(scan, &mut page)).await?;
            }
            TargetKind::Trace => {
                Box::pin(self.page_of_traces(scan, &mut page)).await?;
            }
            TargetKind::Session => {
                Box::pin(self.page_of_sessions(scan, &mut page)).await?;
            }
            // Rules of runs cannot be backfilled.
            TargetKind::Run => page.is_end = true,
        }
        Ok(page)
    }

    async fn page_of_observations(
        &self,
        scan: &BackfillScan<'_>,
        page: &mut BackfillPage,
    ) -> Result<(), perpend_db::Error> {
        let (project, rule) = (scan.project, &scan.rule);
        let query = ObservationQuery {
            filter: range(OBSERVATIONS, "startTime", scan.plan),
            after: page.cursor.as_deref().and_then(read_observation_cursor),
            limit: scan.page_len(),
            with_content: rule.reads_content,
            without_records: true,
            max_bytes: PAGE_BYTES,
            ..ObservationQuery::default()
        };
        let store = &self.deps.store;
        let mut found = store.telemetry.observations(project, &query).await?;
        if rule.reads_experiment {
            let observations = found.items.iter_mut().map(|stored| &mut stored.observation);
            self.attach_links(project, observations.collect()).await?;
        }
        let traces = found.items.iter().map(|stored| stored.observation.trace_id.clone());
        let traces: BTreeSet<TraceId> = traces.collect();
        let ids: Vec<TraceId> = traces.into_iter().collect();
        let executions = store.ledger.rule_executions_in(project, &rule.rule.id, &ids).await?;
        let executions = by_target(&executions);
        let mut traces: HashMap<TraceId, TraceData> = HashMap::new();
        for stored in &found.items {
            if page.is_full() {
                return Ok(());
            }
            let own = &stored.observation;
            if rule.reads_more_than_observation() && !traces.contains_key(&own.trace_id) {
                let of_trace = self.of_trace(project, rule, &own.trace_id).await?;
                traces.insert(own.trace_id.clone(), of_trace);
            }
            let target = Target::Observation(own.trace_id.clone(), own.id.clone());
            let existing = executions.get(&target).map(Vec::as_slice).unwrap_or_default();
            page.reach(observation_cursor(stored), own.start);
            let of_trace = traces.get(&own.trace_id);
            page.take_observation(scan, (own, stored.updated_at), of_trace, existing);
        }
        page.is_end = !found.has_more;
        Ok(())
    }

    async fn page_of_traces(
        &self,
        scan: &BackfillScan<'_>,
        page: &mut BackfillPage,
    ) -> Result<(), perpend_db::Error> {
        let (project, rule) = (scan.project, &scan.rule);
        let query = TraceQuery {
            filter: range(TRACES, "timestamp", scan.plan),
            limit: scan.page_len(),
            with_content: rule.reads_content,
            ..TraceQuery::default()
        };
        let after = page.cursor.as_deref();
        let cursor = after.and_then(|after| TraceOrder::Timestamp.parse_cursor(after));
        let position = ListPosition { cursor, is_backwards: false };
        // Counted up to the end of the page only.
        let bounds = Bounds { max_tested: u64::MAX, max_counted: Some(u64::from(query.limit)) };
        let store = &self.deps.store;
        let found = store.telemetry.traces_from(project, &query, &position, bounds).await?;
        let ids: Vec<TraceId> = found.items.iter().map(|stored| stored.trace.id.clone()).collect();
        let progress = store.telemetry.trace_progress(project, &ids).await?;
        let progress: HashMap<TraceId, Progress> = progress.into_iter().collect();
        let executions = store.ledger.rule_executions_in(project, &rule.rule.id, &ids).await?;
        let executions = by_target(&executions);
        for stored in found.items {
            if page.is_full() {
                return Ok(());
            }
            let trace = stored.trace;
            let at = trace.timestamp;
            let target = Target::Trace(trace.id.clone());
            let cursor = Cursor::new(at, trace.id.to_string());
            page.reach(TraceOrder::cursor_text(&cursor), at);
            let Some(progress) = progress.get(&trace.id) else {
                page.counts.n_left_out += 1;
                continue;
            };
            let scores = self.trace_scores(project, &trace.id, rule.reads_scores()).await?;
            let existing = executions.get(&target).map(Vec::as_slice).unwrap_or_default();
            let whole = WholeTarget::Trace(Box::new(trace), scores);
            page.take_whole(scan, (&target, &whole, progress), existing);
        }
        match found.older {
            Some(last) => page.cursor = Some(TraceOrder::cursor_text(&last)),
            None => page.is_end = true,
        }
        Ok(())
    }

    async fn page_of_sessions(
        &self,
        scan: &BackfillScan<'_>,
        page: &mut BackfillPage,
    ) -> Result<(), perpend_db::Error> {
        let (project, rule) = (scan.project, &scan.rule);
        let query = GroupQuery {
            started: (Some(scan.plan.from), Some(scan.plan.to)),
            position: ListPosition {
                cursor: page.cursor.as_deref().and_then(read_group_cursor),
                is_backwards: false,
            },
            ..GroupQuery::new(GroupKey::Session, PAGE_READ)
        };
        let store = &self.deps.store;
        let found = store.telemetry.trace_groups(project, &query).await?;
        for group in &found.items {
            if page.is_full() {
                return Ok(());
            }
            page.reach(json!([group.last.as_micros(), group.id]).to_string(), group.last);
            let Ok(id) = SessionId::new(&group.id) else {
                page.counts.n_left_out += 1;
                continue;
            };
            let target = Target::Session(id.clone());
            let whole = self.whole(project, &target, &[rule]).await?;
            let progress = self.progress(project, &target).await?;
            let (Some(whole), Some(progress)) = (whole, progress) else {
                page.counts.n_left_out += 1;
                continue;
            };
            let executions = store.ledger.session_executions(project, &id).await?;
            let existing = executions.iter().filter(|each| each.made.rule_id == rule.rule.id);
            let existing: Vec<&Execution> = existing.collect();
            page.take_whole(scan, (&target, &whole, &progress), &existing);
        }
        match found.older {
            Some(last) => page.cursor = Some(json!([last.at.as_micros(), last.id]).to_string()),
            None => page.is_end = true,
        }
        Ok(())
    }
}
