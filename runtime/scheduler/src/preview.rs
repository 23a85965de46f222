//! Preview of a rule: its draft is applied to recent targets without making executions (evaluation.md 1.14).
//!
//! [`select`] decides about a match, as for the matcher. Only a limited number of the newest targets is
//! examined; the result contains how far back they reach.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use perpend_db::{Scratch, is_half_over};
use perpend_domain::evaluation::{AttemptFailure, Rule, Target, TargetKind};
use perpend_domain::filter::{Column, Condition, Filter, OBSERVATIONS, Order, TRACES, Test, find};
use perpend_domain::ids::{EvaluatorId, ProjectId, SessionId, TraceId};
use perpend_domain::list::Paging;
use perpend_domain::observation::Observation;
use perpend_domain::plugin::Item;
use perpend_domain::telemetry::{
    ObservationCursor, ObservationQuery, Progress, SessionQuery, StoredObservation,
};
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::TraceQuery;

use crate::Scheduler;
use crate::call::{LoadResult, NoCall, item_of, missing_of};
use crate::catalog::{PreparedRule, prepare_alone};
use crate::completeness::{completion, observation_completion};
use crate::decide::{CompleteTarget, Refusal, select};
use crate::deps::Inner;
use crate::matcher::TraceData;
use crate::target::ObservationRow;
use crate::trial::{MAX_ITEMS_BYTES, items_too_large};
use crate::whole_targets::WholeTarget;

/// Maximum of examined observations if their row is enough.
const MAX_OBSERVATIONS: usize = 10_000;
/// Maximum of examined targets if content, traces or scores have to be read.
const MAX_READ: usize = 1_000;
/// Rows of one page, also with content.
const PAGE: u32 = 500;
const PAGE_READ: u32 = 50;
/// Content bytes of one page of observations.
const PAGE_BYTES: usize = 8 << 20;
/// Examples in the result.
const N_EXAMPLES: usize = 10;
/// Matches whose mapped parts are checked.
const N_CHECKED: usize = 200;
const DAY_MS: i64 = 86_400_000;
const N_DAYS: i64 = 7;

/// Numbers of targets in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Targets that match the filter.
    pub n_matching: u32,
    /// Matching targets in the sample.
    pub n_sampled: u32,
}

/// A target that the rule would score.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviewExample {
    /// The target.
    pub target: Target,
    /// Its name.
    pub name: Option<String>,
    /// Start time.
    pub at: Timestamp,
    /// The item of the first evaluator, or the reason for not calling it.
    pub item: Result<Item, AttemptFailure>,
}

/// A mapped part that targets lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingVariable {
    /// Of this evaluator.
    pub evaluator: EvaluatorId,
    /// The variable.
    pub variable: String,
    /// Number of checked targets that lack it.
    pub n_targets: u32,
}

/// Result of a preview.
#[derive(Clone, Debug, PartialEq)]
pub struct Preview {
    /// Number of examined targets, newest first.
    pub n_examined: u32,
    /// Whether they are all targets of the last seven days.
    pub is_whole: bool,
    /// Start time of the oldest examined target.
    pub since: Timestamp,
    /// Of the last 24 hours.
    pub last_day: Matches,
    /// Of the last seven days.
    pub last_week: Matches,
    /// The newest sampled targets; if there are none, the newest matching ones.
    pub examples: Vec<PreviewExample>,
    /// Number of targets whose mapped parts were checked.
    pub n_checked: u32,
    /// Mapped parts that some of them lack.
    pub missing: Vec<MissingVariable>,
}

/// A target that matches the filter.
struct PreviewMatch {
    target: Target,
    name: Option<String>,
    at: Timestamp,
    is_sampled: bool,
}

/// Intermediate result of a preview.
struct PreviewState {
    now: Timestamp,
    since: Timestamp,
    /// Start time of the last examined target.
    reached: Timestamp,
    n_examined: usize,
    max_examined: usize,
    /// The examination ends with this number of matches.
    max_matches: usize,
    is_whole: bool,
    matches: Vec<PreviewMatch>,
}

impl Scheduler {
    /// Applies a draft of a rule to the targets of the last seven days.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn preview(
        &self,
        project: &ProjectId,
        rule: Rule,
    ) -> Result<Preview, perpend_db::Error> {
        let inner = &self.inner;
        let mut rule = prepare_alone(&inner.deps.store, project, rule).await?;
        // A shadow version takes the same targets as the live version.
        rule.assignments.retain(|each| each.shadow.is_none());
        let rule = Arc::new(rule);
        let found = inner.examine(project, &rule, usize::MAX).await?;
        // The memory for reading is charged to the memory of evaluations.
        let preview = Box::pin(inner.preview_of(project, &rule, found));
        perpend_db::unlimited(preview).await
    }

    /// The newest complete targets of the last seven days that match the filter of a draft, at most `max`. The draft may have
    /// no evaluators.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn newest_matches(
        &self,
        project: &ProjectId,
        rule: Rule,
        max: usize,
    ) -> Result<Vec<Target>, perpend_db::Error> {
        let inner = &self.inner;
        let rule = Arc::new(prepare_alone(&inner.deps.store, project, rule).await?);
        let found = inner.examine(project, &rule, max).await?;
        Ok(found.matches.into_iter().map(|each| each.target).take(max).collect())
    }
}

impl Inner {
    /// The matches among the targets of the last seven days.
    async fn examine(
        &self,
        project: &ProjectId,
        rule: &Arc<PreparedRule>,
        max_matches: usize,
    ) -> Result<PreviewState, perpend_db::Error> {
        let now = self.deps.clock.now();
        let is_cheap = rule.rule.target.is_of_observations()
            && !rule.reads_content
            && !rule.reads_more_than_observation();
        let mut found = PreviewState {
            now,
            since: now.plus_millis(-N_DAYS * DAY_MS),
            reached: now,
            n_examined: 0,
            max_examined: if is_cheap { MAX_OBSERVATIONS } else { MAX_READ },
            max_matches,
            is_whole: true,
            matches: Vec::new(),
        };
        match rule.rule.target {
            TargetKind::Observation | TargetKind::Experiment => {
                self.preview_observations(project, rule, &mut found).await?;
            }
            TargetKind::Trace => self.preview_traces(project, rule, &mut found).await?,
            TargetKind::Session => self.preview_sessions(project, rule, &mut found).await?,
            // Runs are few, and their evaluation needs no estimate.
            TargetKind::Run => {}
        }
        Ok(found)
    }

    async fn preview_observations(
        &self,
        project: &ProjectId,
        rule: &PreparedRule,
        found: &mut PreviewState,
    ) -> Result<(), perpend_db::Error> {
        let mut query = ObservationQuery {
            filter: since(OBSERVATIONS, "startTime", found.since),
            limit: page_of(rule),
            with_content: rule.reads_content,
            without_records: true,
            max_bytes: PAGE_BYTES,
            ..ObservationQuery::default()
        };
        let mut traces = HashMap::new();
        let telemetry = &self.deps.store.telemetry;
        while found.may_continue() {
            let _scratch = Scratch::begin();
            let mut page = telemetry.observations(project, &query).await?;
            if rule.reads_experiment {
                let observations = page.items.iter_mut().map(|stored| &mut stored.observation);
                self.attach_links(project, observations.collect()).await?;
            }
            for stored in &page.items {
                if !found.examine(stored.observation.start) {
                    return Ok(());
                }
                let id = &stored.observation.trace_id;
                if rule.reads_more_than_observation() && !traces.contains_key(id) {
                    let of_trace = self.of_trace(project, rule, id).await?;
                    traces.insert(id.clone(), of_trace);
                }
                found.take_observation(project, rule, stored, traces.get(id));
            }
            let last = page.items.last().filter(|_| page.has_more);
            let Some(last) = last else {
                return Ok(());
            };
            query.after = Some(ObservationCursor {
                start: last.observation.start,
                trace_id: last.observation.trace_id.clone(),
                id: last.observation.id.clone(),
            });
        }
        Ok(())
    }

    /// The data of a trace that a rule of observations reads.
    pub(crate) async fn of_trace(
        &self,
        project: &ProjectId,
        rule: &PreparedRule,
        id: &TraceId,
    ) -> Result<TraceData, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        let scores = self.trace_scores(project, id, rule.reads_scores()).await?;
        let mut of_trace = TraceData { scores, ..TraceData::default() };
        if rule.reads_trace {
            let ids = [id.clone()];
            let progress = telemetry.trace_progress(project, &ids).await?.pop();
            of_trace.progress = progress.map(|(_, progress)| progress);
            let trace = telemetry.trace(project, id, false).await?;
            of_trace.trace = trace.map(|stored| stored.trace);
        }
        Ok(of_trace)
    }

    async fn preview_traces(
        &self,
        project: &ProjectId,
        rule: &PreparedRule,
        found: &mut PreviewState,
    ) -> Result<(), perpend_db::Error> {
        let mut query = TraceQuery {
            filter: since(TRACES, "timestamp", found.since),
            limit: page_of(rule),
            with_content: rule.reads_content,
            ..TraceQuery::default()
        };
        let telemetry = &self.deps.store.telemetry;
        // Targets that arrive in the meantime shift others to the next page.
        let mut seen = HashSet::new();
        while found.may_continue() {
            let (mut reader, n_total) = telemetry.find_page(project, &query).await?;
            while !reader.is_done() {
                let _scratch = Scratch::begin();
                let traces = telemetry.next_traces(&mut reader).await?;
                let ids: Vec<TraceId> =
                    traces.iter().map(|stored| stored.trace.id.clone()).collect();
                let progress = telemetry.trace_progress(project, &ids).await?;
                let progress: HashMap<TraceId, Progress> = progress.into_iter().collect();
                for stored in traces {
                    if !seen.insert(stored.trace.id.clone()) {
                        continue;
                    }
                    if !found.examine(stored.trace.timestamp) {
                        return Ok(());
                    }
                    let trace = stored.trace;
                    let Some(progress) = progress.get(&trace.id) else {
                        continue;
                    };
                    let scores = self.trace_scores(project, &trace.id, rule.reads_scores()).await?;
                    let (target, name) = (Target::Trace(trace.id.clone()), trace.name.clone());
                    let at = trace.timestamp;
                    let whole = WholeTarget::Trace(Box::new(trace), scores);
                    found.take_whole(project, rule, (&target, &whole, progress), (name, at));
                }
            }
            if n_total <= u64::from(query.page) * u64::from(query.limit) {
                return Ok(());
            }
            query.page += 1;
        }
        Ok(())
    }

    async fn preview_sessions(
        &self,
        project: &ProjectId,
        rule: &Arc<PreparedRule>,
        found: &mut PreviewState,
    ) -> Result<(), perpend_db::Error> {
        let query = SessionQuery { active_from: Some(found.since), ..SessionQuery::default() };
        let telemetry = &self.deps.store.telemetry;
        let mut paging = Paging { page: 1, limit: PAGE };
        let mut seen = HashSet::new();
        while found.may_continue() {
            let page = telemetry.sessions(project, &query, paging).await?;
            let is_last = count(page.items.len()) < paging.limit;
            for listed in page.items {
                let Ok(id) = SessionId::new(&listed.id) else {
                    continue;
                };
                if !seen.insert(id.clone()) {
                    continue;
                }
                if !found.examine(listed.created_at) {
                    return Ok(());
                }
                let _scratch = Scratch::begin();
                let target = Target::Session(id);
                let whole = self.whole(project, &target, &[rule]).await?;
                let progress = self.progress(project, &target).await?;
                if let (Some(whole), Some(progress)) = (whole, progress) {
                    let at = listed.created_at;
                    found.take_whole(project, rule, (&target, &whole, &progress), (None, at));
                }
            }
            if is_last {
                return Ok(());
            }
            paging.page += 1;
        }
        Ok(())
    }

    async fn preview_of(
        &self,
        project: &ProjectId,
        rule: &PreparedRule,
        found: PreviewState,
    ) -> Result<Preview, perpend_db::Error> {
        let day = found.now.plus_millis(-DAY_MS);
        let mut preview = Preview {
            n_examined: count(found.n_examined),
            is_whole: found.is_whole,
            since: found.since,
            last_day: matches(found.matches.iter().filter(|each| day <= each.at)),
            last_week: matches(found.matches.iter()),
            examples: Vec::new(),
            n_checked: 0,
            missing: Vec::new(),
        };
        let mut missing: BTreeMap<(EvaluatorId, String), u32> = BTreeMap::new();
        // A small sample may be empty: then other matches show the mapping.
        let is_empty = preview.last_week.n_sampled == 0;
        let shown = found.matches.into_iter();
        let shown = shown.filter(|each| each.is_sampled || is_empty);
        let mut n_bytes = 0;
        for each in shown.take(N_CHECKED) {
            preview.n_checked += 1;
            // One target is in memory at a time.
            let read_bytes = self.max_read_bytes(project, &each.target, rule).await?;
            let _memory = self.reserve_to_show(project, read_bytes).await;
            for (at, assignment) in rule.assignments.iter().enumerate() {
                let loaded = self.load_target(project, &each.target, &assignment.plan);
                let LoadResult::Loaded(loaded) = loaded.await? else {
                    continue;
                };
                let evaluator = &assignment.evaluator;
                for variable in missing_of(evaluator, &assignment.plan, &loaded) {
                    *missing.entry((evaluator.id().clone(), variable)).or_default() += 1;
                }
                if at == 0 && preview.examples.len() < N_EXAMPLES {
                    let on_missing = rule.rule.on_missing;
                    let item = item_of(evaluator, &assignment.plan, &loaded, on_missing);
                    let item = item.map_err(NoCall::why).and_then(|item| {
                        n_bytes += item.n_bytes();
                        match n_bytes <= MAX_ITEMS_BYTES {
                            true => Ok(item),
                            false => Err(items_too_large()),
                        }
                    });
                    preview.examples.push(PreviewExample {
                        target: each.target.clone(),
                        name: each.name.clone(),
                        at: each.at,
                        item,
                    });
                }
            }
        }
        let missing = missing.into_iter();
        preview.missing = missing
            .map(|((evaluator, variable), n_targets)| MissingVariable {
                evaluator,
                variable,
                n_targets,
            })
            .collect();
        Ok(preview)
    }
}

impl PreviewState {
    /// Whether more targets may be examined. In the second half of its time limit a request returns its
    /// partial result.
    fn may_continue(&mut self) -> bool {
        let is_late = is_half_over();
        if is_late {
            self.since = self.since.max(self.reached);
        }
        let may_continue = !is_late
            && self.n_examined < self.max_examined
            && self.matches.len() < self.max_matches;
        self.is_whole &= may_continue;
        may_continue
    }

    /// Counts one more examined target; `false` if the limit is reached.
    fn examine(&mut self, at: Timestamp) -> bool {
        if !self.may_continue() {
            return false;
        }
        self.n_examined += 1;
        self.reached = at;
        if self.n_examined == self.max_examined {
            self.since = at;
        }
        true
    }

    fn take_observation(
        &mut self,
        project: &ProjectId,
        rule: &PreparedRule,
        stored: &StoredObservation,
        of_trace: Option<&TraceData>,
    ) {
        let own: &Observation = &stored.observation;
        let progress = of_trace.and_then(|of_trace| of_trace.progress.as_ref());
        let progress = progress.filter(|_| rule.waits_for_trace(own));
        let completion =
            observation_completion(own, stored.updated_at, &rule.rule.timing, progress);
        if own.end.is_none() || self.now < completion.at {
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
            project,
            target: &target,
            environment: &own.environment,
            row: &row,
            completion,
            n_observations: 1,
            last_seen: stored.updated_at,
            now: self.now,
        };
        self.take(rule, &complete, Some(&own.name), own.start);
    }

    fn take_whole(
        &mut self,
        project: &ProjectId,
        rule: &PreparedRule,
        (target, whole, progress): (&Target, &WholeTarget, &Progress),
        (name, at): (Option<String>, Timestamp),
    ) {
        let timing = &rule.rule.timing;
        let completion = completion(target.kind(), progress, timing, progress.first_seen);
        if self.now < completion.at {
            return;
        }
        let row = whole.row(completion);
        let complete = whole.complete((project, target), &*row, (completion, progress), self.now);
        self.take(rule, &complete, name.as_deref(), at);
    }

    /// Decides and keeps a match.
    fn take(
        &mut self,
        rule: &PreparedRule,
        complete: &CompleteTarget<'_>,
        name: Option<&str>,
        at: Timestamp,
    ) {
        let is_sampled = match select(rule, complete) {
            Ok(_) => true,
            Err(refusal) if matches!(*refusal, Refusal::SampledOut { .. }) => false,
            Err(_) => return,
        };
        self.matches.push(PreviewMatch {
            target: complete.target.clone(),
            name: name.map(str::to_owned),
            at,
            is_sampled,
        });
    }
}

fn page_of(rule: &PreparedRule) -> u32 {
    match rule.reads_content {
        true => PAGE_READ,
        false => PAGE,
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn matches<'m>(all: impl Iterator<Item = &'m PreviewMatch>) -> Matches {
    let mut matches = Matches::default();
    for each in all {
        matches.n_matching += 1;
        matches.n_sampled += u32::from(each.is_sampled);
    }
    matches
}

/// Filter for rows that start at the time or later.
fn since(columns: &'static [Column], name: &str, at: Timestamp) -> Filter {
    Filter {
        conditions: vec![Condition {
            column: find(columns, name),
            test: Test::Time(Order::AtLeast, at),
        }],
    }
}
