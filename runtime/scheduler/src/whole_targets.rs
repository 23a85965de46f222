//! Rules of whole traces, sessions and runs: when they examine a target, and which data they read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use perpend_domain::evaluation::{Execution, Target, TargetKind};
use perpend_domain::experiment::ExperimentRun;
use perpend_domain::filter::Row;
use perpend_domain::ids::{ProjectId, SessionId, TraceId};
use perpend_domain::score::NewScore;
use perpend_domain::session::Session;
use perpend_domain::telemetry::Progress;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use perpend_executions::{NewWatch, Watch};

use crate::catalog::{Catalog, PreparedRule};
use crate::completeness::{Completion, completion};
use crate::decide::{CompleteTarget, RUN_ENVIRONMENT, Refusal};
use crate::deps::{Error, Inner};
use crate::matcher::{Pass, earliest, of_rule};
use crate::rule_dependencies::{OpenRules, is_open, next_poll};
use crate::target::{RunRow, SessionRow, TraceRow};

/// A trace or a session to be decided, with its scores, or a run.
pub(crate) enum WholeTarget {
    Trace(Box<Trace>, Vec<NewScore>),
    Session(Box<Session>, Vec<NewScore>),
    Run(Box<ExperimentRun>),
}

impl WholeTarget {
    /// The row for filters.
    pub(crate) fn row(&self, completion: Completion) -> Box<dyn Row + '_> {
        match self {
            Self::Trace(trace, scores) => {
                Box::new(TraceRow { trace, completion: Some(completion.reason), scores })
            }
            Self::Session(session, scores) => Box::new(SessionRow { session, scores }),
            Self::Run(run) => Box::new(RunRow(run)),
        }
    }

    /// The target for [`decide`], with its [`WholeTarget::row`].
    pub(crate) fn complete<'a>(
        &'a self,
        (project, target): (&'a ProjectId, &'a Target),
        row: &'a dyn Row,
        (completion, progress): (Completion, &Progress),
        now: Timestamp,
    ) -> CompleteTarget<'a> {
        CompleteTarget {
            project,
            target,
            environment: match self {
                Self::Trace(trace, _) => &trace.environment,
                Self::Session(session, _) => &session.environment,
                Self::Run(_) => RUN_ENVIRONMENT,
            },
            row,
            completion,
            n_observations: progress.n_observations,
            last_seen: progress.last_seen,
            now,
        }
    }
}

/// Start of the wait of a rule for a trace or session: since it arrived, since it continued, or since the
/// rule last evaluated it.
pub(crate) fn began_at(
    progress: &Progress,
    watch: Option<&Watch>,
    existing: &[&Execution],
) -> Timestamp {
    let watched = watch.map_or(progress.first_seen, |watch| watch.began_at);
    let made_at = existing.iter().map(|each| each.created_at);
    made_at.fold(progress.first_seen.max(watched), Timestamp::max)
}

/// Whether nothing has arrived since the rule made its newest executions.
fn is_up_to_date(progress: &Progress, existing: &[&Execution]) -> bool {
    let newest = existing.iter().max_by_key(|each| each.created_at);
    newest.is_some_and(|newest| {
        progress.last_seen <= newest.created_at
            && progress.n_observations <= newest.made.n_observations
    })
}

/// Whether a rule is due to decide a trace or a session.
enum Readiness {
    /// The rule has decided, and nothing has arrived since.
    Decided,
    /// When the target is complete for the rule.
    Later(Timestamp),
    /// The target is complete now.
    Ready(Completion),
}

fn readiness(
    rule: &PreparedRule,
    progress: &Progress,
    watch: &Watch,
    existing: &[&Execution],
    now: Timestamp,
) -> Readiness {
    // Targets that arrived before the rule was made are not taken, even if they become complete only now.
    let is_older = existing.is_empty() && progress.last_seen < rule.rule.created_at;
    if is_older || is_up_to_date(progress, existing) {
        return Readiness::Decided;
    }
    let began_at = began_at(progress, Some(watch), existing);
    let completion = completion(rule.rule.target, progress, &rule.rule.timing, began_at);
    if now < completion.at {
        return Readiness::Later(completion.at);
    }
    let was_decided = completion.at <= watch.looked_at && progress.last_seen <= watch.looked_at;
    match was_decided && !watch.waiting.contains(&rule.rule.id) {
        true => Readiness::Decided,
        false => Readiness::Ready(completion),
    }
}

/// The latest time at which a waiting target is examined: an execution that ends wakes its trace, but not the
/// session.
fn latest_poll(now: Timestamp, target: &Target) -> Timestamp {
    /// For a session or a run, milliseconds.
    const LONGEST_MS: i64 = 30_000;
    match target {
        Target::Session(_) | Target::Run(_) => now.plus_millis(LONGEST_MS),
        Target::Observation(..) | Target::Trace(_) => NewWatch::NEVER,
    }
}

impl Inner {
    /// Sets watches so that rules of traces examine these traces when they are complete.
    pub(crate) async fn watch_traces(
        &self,
        pass: &mut Pass<'_>,
        project: &ProjectId,
        changed: &HashMap<&TraceId, Timestamp>,
    ) -> Result<(), Error> {
        if pass.catalog.rules_of(project, TargetKind::Trace).is_empty() {
            return Ok(());
        }
        let ids: Vec<TraceId> = changed.keys().map(|id| (*id).clone()).collect();
        let telemetry = &self.deps.store.telemetry;
        for (trace, progress) in telemetry.trace_progress(project, &ids).await? {
            if let Some(at) = changed.get(&trace) {
                pass.watch_whole(project, Target::Trace(trace), &progress, *at);
            }
        }
        Ok(())
    }

    /// The same for the sessions of these traces. A session may have any number of traces, so they are not
    /// read before the session is due.
    pub(crate) async fn watch_sessions(
        &self,
        pass: &mut Pass<'_>,
        project: &ProjectId,
        changed: &HashMap<&TraceId, Timestamp>,
    ) -> Result<(), Error> {
        if pass.catalog.rules_of(project, TargetKind::Session).is_empty() {
            return Ok(());
        }
        let store = &self.deps.store;
        let ids: Vec<TraceId> = changed.keys().map(|id| (*id).clone()).collect();
        let mut sessions: BTreeMap<SessionId, Timestamp> = BTreeMap::new();
        for (trace, session) in store.telemetry.sessions_of(project, &ids).await? {
            if let Some(at) = changed.get(&trace) {
                let last = sessions.entry(session).or_insert(*at);
                *last = (*last).max(*at);
            }
        }
        for (session, at) in sessions {
            let target = Target::Session(session);
            let existing = store.ledger.watch(project, &target).await?;
            let progress = Progress {
                first_seen: existing.map_or(at, |watch| watch.began_at),
                last_seen: at,
                has_root: false,
                root_ended_at: None,
                n_open: 0,
                has_marker: false,
                n_observations: 0,
            };
            pass.watch_whole(project, target, &progress, at);
        }
        Ok(())
    }

    /// Decides a trace or a session whose watch is due.
    pub(crate) async fn match_whole(
        &self,
        pass: &mut Pass<'_>,
        watch: &Watch,
    ) -> Result<(), Error> {
        let (project, target) = (&watch.project, &watch.target);
        let mut next = self.match_missing(pass, watch).await?;
        let Some(progress) = self.progress(project, target).await? else {
            pass.move_watch(watch, next, Vec::new());
            return Ok(());
        };
        let rules = pass.catalog.rules_of(project, target.kind());
        let mut open = self.open_parts(pass.catalog, project, target, &rules).await?;
        let ledger = &self.deps.store.ledger;
        let all = ledger.executions_over(project, target).await?;
        let mut waiting = Vec::new();
        let mut seen: Option<WholeTarget> = None;
        for rule in &rules {
            let existing = of_rule(&all, &rule.rule.id, target);
            if is_open(&existing) {
                open.note(&rule.rule);
            }
            let completion = match readiness(rule, &progress, watch, &existing, pass.now) {
                Readiness::Decided => continue,
                Readiness::Later(at) => {
                    open.note(&rule.rule);
                    next = earliest(next, at);
                    if pass.catalog.awaited().contains(&rule.rule.id) {
                        waiting.push(rule.rule.id.clone());
                    }
                    continue;
                }
                Readiness::Ready(completion) => completion,
            };
            if open.keep_waiting(&rule.rule) {
                open.note(&rule.rule);
                let soon = next_poll(pass.now, completion.at);
                next = earliest(next, soon.min(latest_poll(pass.now, target)));
                waiting.push(rule.rule.id.clone());
                continue;
            }
            if !rule.rule.enabled {
                pass.count(project, rule, Refusal::RuleInactive.reason());
                continue;
            }
            let whole = match &mut seen {
                Some(whole) => whole,
                none => {
                    let Some(whole) = self.whole(project, target, &rules).await? else {
                        return Ok(());
                    };
                    none.insert(whole)
                }
            };
            let row = whole.row(completion);
            let (about, at) = ((project, target), (completion, &progress));
            let complete = whole.complete(about, &*row, at, pass.now);
            if pass.take(rule, &complete, &existing, watch.due_at) {
                open.note(&rule.rule);
            }
        }
        pass.move_watch(watch, next, waiting);
        Ok(())
    }

    /// The progress of a trace or a session; `None` if it does not exist, and for an observation.
    pub(crate) async fn progress(
        &self,
        project: &ProjectId,
        target: &Target,
    ) -> Result<Option<Progress>, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        Ok(match target {
            Target::Trace(id) => {
                let found = telemetry.trace_progress(project, std::slice::from_ref(id));
                found.await?.pop().map(|(_, progress)| progress)
            }
            Target::Session(id) => {
                let found = telemetry.session_progress(project, std::slice::from_ref(id));
                found.await?.pop().map(|(_, progress)| progress)
            }
            Target::Run(run) => self.run_progress(project, run).await?,
            Target::Observation(..) => None,
        })
    }

    /// A trace or a session with the data that the filters of these rules read; `None` if it does not exist,
    /// and for an observation.
    pub(crate) async fn whole(
        &self,
        project: &ProjectId,
        target: &Target,
        rules: &[&Arc<PreparedRule>],
    ) -> Result<Option<WholeTarget>, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        let reads_scores = rules.iter().any(|rule| rule.reads_scores());
        Ok(match target {
            Target::Trace(id) => match telemetry.target_trace(project, id).await? {
                None => None,
                Some(trace) => {
                    let scores = self.trace_scores(project, id, reads_scores).await?;
                    Some(WholeTarget::Trace(Box::new(trace), scores))
                }
            },
            Target::Session(id) => {
                let reads_content = rules.iter().any(|rule| rule.reads_content);
                match telemetry.target_session(project, id, reads_content).await? {
                    None => None,
                    Some(session) => {
                        let scores = match reads_scores {
                            true => telemetry.scores_of_session(project, id).await?,
                            false => Vec::new(),
                        };
                        let scores = scores.into_iter().map(|score| score.written);
                        Some(WholeTarget::Session(Box::new(session), scores.collect()))
                    }
                }
            }
            Target::Run(run) => {
                let run = telemetry.experiment_run(project, run).await?;
                run.map(|run| WholeTarget::Run(Box::new(run)))
            }
            Target::Observation(..) => None,
        })
    }

    /// Rules of parts of a target that have not ended with all of them, if one of these rules waits for them.
    async fn open_parts<'r>(
        &self,
        catalog: &'r Catalog,
        project: &ProjectId,
        target: &Target,
        rules: &[&'r Arc<PreparedRule>],
    ) -> Result<OpenRules<'r>, Error> {
        let mut open = OpenRules::default();
        let is_named = |part: &&Arc<PreparedRule>| {
            let mut rules = rules.iter();
            rules.any(|rule| rule.rule.after.contains(&part.rule.id))
        };
        let mut parts = catalog.rules_of_parts(project, target.kind());
        parts.retain(is_named);
        if parts.is_empty() {
            return Ok(open);
        }
        let traces = self.traces_of(project, target).await?;
        for part in parts {
            let id = &part.rule.id;
            let ledger = &self.deps.store.ledger;
            if ledger.is_open_in(project, &traces, id).await? {
                open.note(&part.rule);
            }
        }
        Ok(open)
    }

    /// The traces of a target: the trace itself, the trace of an observation, or the traces of a session or a
    /// run.
    pub(crate) async fn traces_of(
        &self,
        project: &ProjectId,
        target: &Target,
    ) -> Result<Vec<TraceId>, perpend_db::Error> {
        match target {
            Target::Observation(trace, _) | Target::Trace(trace) => Ok(vec![trace.clone()]),
            Target::Session(session) => {
                let telemetry = &self.deps.store.telemetry;
                telemetry.session_trace_ids(project, session).await
            }
            Target::Run(run) => self.deps.store.telemetry.run_trace_ids(project, run).await,
        }
    }
}

impl Pass<'_> {
    /// Sets a watch so that rules of whole traces or sessions examine the target when it is complete; `at` is
    /// the time of its change.
    fn watch_whole(
        &mut self,
        project: &ProjectId,
        target: Target,
        progress: &Progress,
        at: Timestamp,
    ) {
        let rules = self.catalog.rules_of(project, target.kind());
        // At the earliest time: the start of the wait is determined at the examination.
        let due = rules.iter().map(|rule| {
            let began_at = progress.first_seen;
            completion(rule.rule.target, progress, &rule.rule.timing, began_at).at
        });
        let Some(due_at) = due.min() else {
            return;
        };
        let awaited = self.catalog.awaited();
        let awaited = rules.iter().filter(|rule| awaited.contains(&rule.rule.id));
        let waiting = awaited.map(|rule| rule.rule.id.clone()).collect();
        self.set_watch(NewWatch {
            watch: Watch {
                project: project.clone(),
                target,
                began_at: at,
                changed_at: at,
                looked_at: Timestamp::from_micros(0),
                due_at,
                waiting,
            },
            was_due_at: None,
        });
    }
}
