//! Rules with their assignments.

use std::collections::HashMap;

use perpend_domain::budget::Budget;
use perpend_domain::chain::{self, ChainRule};
use perpend_domain::cron::{InvalidSchedule, Schedule};
use perpend_domain::evaluation::{
    Assignment, LatePolicy, OnMissing, Pause, Rule, TargetKind, Timing, VersionPolicy,
};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{EvaluatorId, ProjectId, RuleId};
use perpend_domain::plugin::Digest;
use perpend_domain::time::{Clock, Timestamp};

use super::revision::{PauseOutcome, RAISE, raise_from};
use super::row;
use super::rule_changes::{delete_changes, record_change};
use crate::{Catalog, Error, audit};
use perpend_db::{
    Source, Tx, bounds, checked, from_json, in_transaction, query, query_scalar, to_json,
};
use perpend_domain::list::{Cursor, Page};

/// Maximum of enabled rules per project (evaluation.md 1.2).
pub const MAX_ACTIVE_RULES: u32 = 500;
/// Kind of the object in the audit trail.
const AUDITED: &str = "evaluation-rule";

const OTHER_REVISION: &str =
    "the rule was changed after the revision that the change is based on: read it again";

/// Changes of a rule; `None` keeps a field. Lists are replaced as a whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulePatch {
    /// Name.
    pub name: Option<String>,
    /// Target.
    pub target: Option<TargetKind>,
    /// Whether the rule is enabled. Absent with an empty list of assignments: disabled.
    pub enabled: Option<bool>,
    /// Sampling rate.
    pub sampling: Option<f64>,
    /// Whether the rule draws its own sample.
    pub sampling_independent: Option<bool>,
    /// Conditions.
    pub filter: Option<WrittenFilter>,
    /// Evaluators.
    pub assignments: Option<Vec<Assignment>>,
    /// Version of all evaluators, if their list is unchanged.
    pub version: Option<VersionPolicy>,
    /// The cron schedule; `Some(None)` removes it.
    pub schedule: Option<Option<Schedule>>,
    /// Waiting times.
    pub timing: Option<Timing>,
    /// Handling of missing mapped parts.
    pub on_missing: Option<OnMissing>,
    /// Handling of late observations.
    pub late: Option<LatePolicy>,
    /// Limits of the cost of its model calls. A rule that waits for its budget resumes with a new one.
    pub budget: Option<Vec<Budget>>,
    /// Rules to wait for.
    pub after: Option<Vec<RuleId>>,
    /// Share of targets that are refused because of scores only and evaluated anyway.
    pub audit: Option<f64>,
    /// The revision ([`Rule::revision`]) that the change is based on; a rule with another one is not changed.
    pub revision: Option<Digest>,
}

impl RulePatch {
    /// Applies the changes to a rule, at `now`.
    pub fn apply(&self, rule: &mut Rule, now: Timestamp) {
        fn set<T: Clone>(slot: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                slot.clone_from(value);
            }
        }
        let drops_all = self.assignments.as_ref().is_some_and(Vec::is_empty);
        set(&mut rule.name, self.name.as_ref());
        set(&mut rule.target, self.target.as_ref());
        set(&mut rule.enabled, self.enabled.as_ref());
        set(&mut rule.sampling, self.sampling.as_ref());
        set(&mut rule.sampling_independent, self.sampling_independent.as_ref());
        set(&mut rule.filter, self.filter.as_ref());
        if self.filter.is_none() && self.target.is_some() {
            let sent = rule.filter.sent().to_vec();
            rule.filter = WrittenFilter::stored(sent, rule.target.filter_columns()).0;
        }
        set(&mut rule.assignments, self.assignments.as_ref());
        for assignment in &mut rule.assignments {
            set(&mut assignment.version, self.version.as_ref());
        }
        set(&mut rule.schedule, self.schedule.as_ref());
        set(&mut rule.timing, self.timing.as_ref());
        set(&mut rule.on_missing, self.on_missing.as_ref());
        set(&mut rule.late, self.late.as_ref());
        set(&mut rule.budget, self.budget.as_ref());
        set(&mut rule.after, self.after.as_ref());
        set(&mut rule.audit, self.audit.as_ref());
        if drops_all && self.enabled.is_none() {
            rule.enabled = false;
        }
        rule.updated_at = now;
    }
}

perpend_db::record! {
    pub(super) struct RuleRow {
        project_id: String,
        id: String,
        name: String,
        target: String,
        enabled: i16,
        paused_reason: Option<String>,
        paused_message: Option<String>,
        paused_at: Option<i64>,
        paused_until: Option<i64>,
        sampling: f64,
        sampling_independent: i16,
        filter: String,
        settle_ms: Option<i64>,
        quiet_ms: Option<i64>,
        max_wait_ms: Option<i64>,
        on_missing: String,
        late: String,
        budget: String,
        after_rules: String,
        audit: f64,
        cron: Option<String>,
        timezone: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

perpend_db::record! {
    pub(super) struct AssignmentRow {
        project_id: String,
        rule_id: String,
        id: String,
        evaluator_id: String,
        pinned_version: Option<i32>,
        shadow_version: Option<i32>,
        mapping: Option<String>,
        skipped_until: Option<i64>,
    }
}

perpend_db::record! {
    struct LinkRow {
        id: String,
        name: String,
        target: String,
        after_rules: String,
    }
}

impl TryFrom<LinkRow> for ChainRule {
    type Error = Error;

    fn try_from(row: LinkRow) -> Result<Self, Error> {
        Ok(Self {
            id: checked("rule", &row.id)?,
            name: row.name,
            target: checked("rule", &row.target)?,
            after: ids(&row.after_rules)?,
        })
    }
}

impl TryFrom<AssignmentRow> for Assignment {
    type Error = Error;

    fn try_from(row: AssignmentRow) -> Result<Self, Error> {
        let mapping = row.mapping.map(|raw| from_json("assignment", &raw));
        Ok(Self {
            id: checked("assignment", &row.id)?,
            evaluator_id: checked("assignment", &row.evaluator_id)?,
            version: match (row.pinned_version, row.shadow_version) {
                (Some(number), _) => VersionPolicy::Pinned(number.unsigned_abs()),
                (None, Some(number)) => VersionPolicy::Shadow(number.unsigned_abs()),
                (None, None) => VersionPolicy::Latest,
            },
            mapping: mapping.transpose()?,
            skipped_until: row.skipped_until.map(Timestamp::from_micros),
        })
    }
}

impl RuleRow {
    fn with(self, assignments: Vec<Assignment>) -> Result<(ProjectId, Rule), Error> {
        let target: TargetKind = checked("rule", &self.target)?;
        let sent = from_json("rule", &self.filter)?;
        let rule = Rule {
            id: checked("rule", &self.id)?,
            name: self.name,
            target,
            enabled: self.enabled != 0,
            paused: row::pause(
                self.paused_reason,
                self.paused_message,
                self.paused_at,
                self.paused_until,
            ),
            sampling: self.sampling,
            sampling_independent: self.sampling_independent != 0,
            filter: WrittenFilter::stored(sent, target.filter_columns()).0,
            assignments,
            schedule: schedule(self.cron.as_deref(), self.timezone.as_deref())?,
            timing: Timing {
                settle_ms: self.settle_ms,
                quiet_ms: self.quiet_ms,
                max_wait_ms: self.max_wait_ms,
            },
            on_missing: checked("rule", &self.on_missing)?,
            late: checked("rule", &self.late)?,
            budget: from_json("rule", &self.budget)?,
            after: ids(&self.after_rules)?,
            audit: self.audit,
            created_at: Timestamp::from_micros(self.created_at),
            updated_at: Timestamp::from_micros(self.updated_at),
        };
        Ok((checked("rule", &self.project_id)?, rule))
    }
}

fn schedule(cron: Option<&str>, timezone: Option<&str>) -> Result<Option<Schedule>, Error> {
    let (Some(cron), Some(timezone)) = (cron, timezone) else {
        return Ok(None);
    };
    let read = Schedule::parse(cron, timezone);
    let invalid = |error: InvalidSchedule| Error::Inconsistent {
        what: "rule",
        detail: format!("{}: {error}", error.member()),
    };
    read.map(Some).map_err(invalid)
}

fn ids(raw: &str) -> Result<Vec<RuleId>, Error> {
    let ids: Vec<String> = from_json("rule", raw)?;
    ids.iter().map(|id| checked("rule", id)).collect()
}

/// Adds the assignments, which are ordered, to their rules.
pub(super) fn assemble(
    rules: Vec<RuleRow>,
    assignments: Vec<AssignmentRow>,
) -> Result<Vec<(ProjectId, Rule)>, Error> {
    let mut by_rule: HashMap<(String, String), Vec<Assignment>> = HashMap::new();
    for row in assignments {
        let key = (row.project_id.clone(), row.rule_id.clone());
        by_rule.entry(key).or_default().push(row.try_into()?);
    }
    let whole = |row: RuleRow| {
        let key = (row.project_id.clone(), row.id.clone());
        let assignments = by_rule.remove(&key).unwrap_or_default();
        row.with(assignments)
    };
    rules.into_iter().map(whole).collect()
}

const GET: &str = "SELECT * FROM rules WHERE project_id = $1 AND id = $2";
const GET_ASSIGNMENTS: &str = "
    SELECT * FROM assignments WHERE project_id = $1 AND rule_id = $2 ORDER BY place";
const LIST_FIRST: &str = "
    SELECT * FROM rules WHERE project_id = $1 ORDER BY created_at DESC, id DESC LIMIT $2";
const LIST_AFTER: &str = "
    SELECT * FROM rules
     WHERE project_id = $1 AND (created_at, id) < ($3, $4)
     ORDER BY created_at DESC, id DESC LIMIT $2";
/// Of the rules between two positions in the list, both inclusive.
const LIST_ASSIGNMENTS: &str = "
    SELECT a.* FROM assignments a JOIN rules r ON r.project_id = a.project_id AND r.id = a.rule_id
     WHERE r.project_id = $1
       AND (r.created_at, r.id) <= ($2, $3) AND (r.created_at, r.id) >= ($4, $5)
     ORDER BY a.rule_id, a.place";
/// Other rules with this name and target.
const NAMESAKES: &str = "
    SELECT * FROM rules WHERE project_id = $1 AND name = $2 AND target = $3 AND id <> $4";
const NAMESAKES_ASSIGNMENTS: &str = "
    SELECT a.* FROM assignments a JOIN rules r ON r.project_id = a.project_id AND r.id = a.rule_id
     WHERE r.project_id = $1 AND r.name = $2 AND r.target = $3 AND r.id <> $4
     ORDER BY a.rule_id, a.place";
pub(super) const ENABLED: &str = "
    SELECT * FROM rules WHERE enabled = 1 ORDER BY project_id, created_at, id";
/// The most recently changed ones of each project.
pub(super) const DISABLED: &str = "
    SELECT r.* FROM rules r
      JOIN (SELECT project_id, id,
                   ROW_NUMBER() OVER (PARTITION BY project_id ORDER BY updated_at DESC, id) AS place
              FROM rules WHERE enabled = 0) p ON p.project_id = r.project_id AND p.id = r.id
     WHERE p.place <= $1
     ORDER BY r.project_id, r.created_at, r.id";
pub(super) const ENABLED_ASSIGNMENTS: &str = "
    SELECT a.* FROM assignments a JOIN rules r ON r.project_id = a.project_id AND r.id = a.rule_id
     WHERE r.enabled = 1
     ORDER BY a.project_id, a.rule_id, a.place";
const ENABLED_OF: &str =
    "SELECT * FROM rules WHERE project_id = $1 AND enabled = 1 ORDER BY created_at, id";
const ENABLED_ASSIGNMENTS_OF: &str = "
    SELECT a.* FROM assignments a JOIN rules r ON r.project_id = a.project_id AND r.id = a.rule_id
     WHERE r.project_id = $1 AND r.enabled = 1 ORDER BY a.rule_id, a.place";
const COUNT_ENABLED: &str = "SELECT COUNT(*) FROM rules WHERE project_id = $1 AND enabled = 1";
const COUNT_PAUSED: &str =
    "SELECT COUNT(*) FROM rules WHERE project_id = $1 AND enabled = 1 AND paused_at IS NOT NULL";
/// Without the pause, which has its own statements.
const PUT: &str = "
    INSERT INTO rules
        (project_id, id, name, target, enabled, sampling, sampling_independent, filter,
         settle_ms, quiet_ms, max_wait_ms, on_missing, late, created_at, updated_at, budget, after_rules, audit, cron,
         timezone)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
    ON CONFLICT (project_id, id) DO UPDATE SET
        name = excluded.name, target = excluded.target, enabled = excluded.enabled,
        sampling = excluded.sampling, sampling_independent = excluded.sampling_independent,
        filter = excluded.filter, settle_ms = excluded.settle_ms, quiet_ms = excluded.quiet_ms,
        max_wait_ms = excluded.max_wait_ms, on_missing = excluded.on_missing, late = excluded.late,
        budget = excluded.budget, after_rules = excluded.after_rules, audit = excluded.audit,
        cron = excluded.cron, timezone = excluded.timezone, updated_at = excluded.updated_at";
const DROP_ASSIGNMENTS: &str = "DELETE FROM assignments WHERE project_id = $1 AND rule_id = $2";
/// Inserts nothing if the project has no such evaluator.
const INSERT_ASSIGNMENT: &str = "
    INSERT INTO assignments
        (project_id, rule_id, place, id, evaluator_id, mapping, pinned_version, shadow_version)
    SELECT $1, $2, $3, $4, id, $6, $7, $8 FROM evaluators WHERE project_id = $1 AND id = $5";
const PAUSE: &str = "
    UPDATE rules SET paused_reason = $3, paused_message = $4, paused_at = $5, paused_until = $6, updated_at = $5
     WHERE project_id = $1 AND id = $2 AND paused_at IS NULL";
const UNPAUSE: &str = "
    UPDATE rules
       SET paused_reason = NULL, paused_message = NULL, paused_at = NULL, paused_until = NULL, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND paused_at IS NOT NULL";
const MOVE_PAUSE: &str =
    "UPDATE rules SET paused_until = $4 WHERE project_id = $1 AND id = $2 AND paused_until = $3";
const END_BREAKER: &str = "
    UPDATE rules
       SET paused_reason = NULL, paused_message = NULL, paused_at = NULL, paused_until = NULL, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND paused_reason IN ('PLUGIN_FAILING', 'UPSTREAM_FAILING')";
const LINKS: &str = "SELECT id, name, target, after_rules FROM rules WHERE project_id = $1";
const SET_AFTER: &str = "UPDATE rules SET after_rules = $3 WHERE project_id = $1 AND id = $2";
const RUNS: &str = "
    SELECT COUNT(*) FROM rules r
      JOIN assignments a ON a.project_id = r.project_id AND a.rule_id = r.id
      JOIN evaluators e ON e.project_id = a.project_id AND e.id = a.evaluator_id
     WHERE r.project_id = $1 AND r.id = $2 AND r.enabled = 1 AND e.id = $3 AND e.paused_at IS NULL";
const DELETE: &str = "DELETE FROM rules WHERE project_id = $1 AND id = $2";

/// Reads a rule with its assignments.
async fn read_rule(
    mut source: Source<'_>,
    project: &ProjectId,
    id: &RuleId,
) -> Result<Option<Rule>, Error> {
    let row: Option<RuleRow> =
        query(GET).bind(project.as_str()).bind(id.as_str()).fetch_optional(source.again()).await?;
    let Some(row) = row else { return Ok(None) };
    let assignments: Vec<AssignmentRow> =
        query(GET_ASSIGNMENTS).bind(project.as_str()).bind(id.as_str()).fetch_all(source).await?;
    let assignments = assignments.into_iter().map(TryInto::try_into);
    let (_, rule) = row.with(assignments.collect::<Result<_, Error>>()?)?;
    Ok(Some(rule))
}

/// Refuses a rule that equals another one. The check holds until the transaction ends, because [`RAISE`]
/// serialises the writers of rules.
async fn refuse_duplicate(tx: &mut Tx, project: &ProjectId, rule: &Rule) -> Result<(), Error> {
    let namesakes = |sql: &'static str| {
        query(sql)
            .bind(project.as_str())
            .bind(&rule.name)
            .bind(rule.target.as_str())
            .bind(rule.id.as_str())
    };
    let rules: Vec<RuleRow> = namesakes(NAMESAKES).fetch_all(&mut *tx).await?;
    if rules.is_empty() {
        return Ok(());
    }
    let assignments: Vec<AssignmentRow> = namesakes(NAMESAKES_ASSIGNMENTS).fetch_all(tx).await?;
    let namesakes = assemble(rules, assignments)?;
    if namesakes.iter().any(|(_, other)| other.is_duplicate_of(rule)) {
        return Err(Error::NameTaken(
            "a rule with this name, target, filter and evaluators exists: change that one, or choose another name",
        ));
    }
    Ok(())
}

fn texts(ids: &[RuleId]) -> Vec<&str> {
    ids.iter().map(RuleId::as_str).collect()
}

/// The dependencies between the rules of a project.
async fn read_links(source: Source<'_>, project: &ProjectId) -> Result<Vec<ChainRule>, Error> {
    let rows: Vec<LinkRow> = query(LINKS).bind(project.as_str()).fetch_all(source).await?;
    rows.into_iter().map(TryInto::try_into).collect()
}

/// Removes a deleted rule from the rules that wait for it.
async fn remove_from_others(tx: &mut Tx, project: &ProjectId, id: &RuleId) -> Result<(), Error> {
    let links = read_links(tx.into(), project).await?;
    for mut link in links.into_iter().filter(|link| link.after.contains(id)) {
        link.after.retain(|each| each != id);
        query(SET_AFTER)
            .bind(project.as_str())
            .bind(link.id.as_str())
            .bind(to_json("rule", &texts(&link.after))?)
            .execute(tx)
            .await?;
    }
    Ok(())
}

/// Writes a rule with its assignments and checks its constraints.
async fn write_rule(tx: &mut Tx, project: &ProjectId, rule: &Rule) -> Result<(), Error> {
    let links = read_links(tx.into(), project).await?;
    if chain::check(&rule.into(), &links).is_err() {
        return Err(Error::Conflict(
            "a concurrent change of rules made the chain of this rule circular or too long",
        ));
    }
    if rule.enabled && rule.assignments.is_empty() {
        return Err(Error::Conflict("an enabled rule needs an evaluator"));
    }
    query(PUT)
        .bind(project.as_str())
        .bind(rule.id.as_str())
        .bind(&rule.name)
        .bind(rule.target.as_str())
        .bind(rule.enabled)
        .bind(rule.sampling)
        .bind(rule.sampling_independent)
        .bind(to_json("rule", &rule.filter.sent())?)
        .bind(rule.timing.settle_ms)
        .bind(rule.timing.quiet_ms)
        .bind(rule.timing.max_wait_ms)
        .bind(rule.on_missing.as_str())
        .bind(rule.late.as_str())
        .bind(rule.created_at.as_micros())
        .bind(rule.updated_at.as_micros())
        .bind(to_json("rule", &rule.budget)?)
        .bind(to_json("rule", &texts(&rule.after))?)
        .bind(rule.audit)
        .bind(rule.schedule.as_ref().map(Schedule::expression))
        .bind(rule.schedule.as_ref().map(Schedule::timezone))
        .execute(tx)
        .await?;
    query(DROP_ASSIGNMENTS).bind(project.as_str()).bind(rule.id.as_str()).execute(tx).await?;
    for (place, assignment) in (0_i32..).zip(&rule.assignments) {
        let mapping = assignment.mapping.as_ref();
        let mapping = mapping.map(|mapping| to_json("assignment", mapping));
        let (pinned, shadow) = match assignment.version {
            VersionPolicy::Latest => (None, None),
            VersionPolicy::Pinned(number) => (Some(i64::from(number)), None),
            VersionPolicy::Shadow(number) => (None, Some(i64::from(number))),
        };
        let n_made = query(INSERT_ASSIGNMENT)
            .bind(project.as_str())
            .bind(rule.id.as_str())
            .bind(place)
            .bind(assignment.id.as_str())
            .bind(assignment.evaluator_id.as_str())
            .bind(mapping.transpose()?)
            .bind(pinned)
            .bind(shadow)
            .execute(tx)
            .await?;
        if n_made == 0 {
            return Err(Error::NotFound);
        }
    }
    let n_enabled: i64 = query_scalar(COUNT_ENABLED).bind(project.as_str()).fetch_one(tx).await?;
    if rule.enabled && i64::from(MAX_ACTIVE_RULES) < n_enabled {
        return Err(Error::Conflict("a project has at most 500 active rules"));
    }
    Ok(())
}

impl Catalog {
    /// The rule with its assignments.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rule(&self, project: &ProjectId, id: &RuleId) -> Result<Option<Rule>, Error> {
        read_rule((&self.pool).into(), project, id).await
    }

    /// The rules of a project, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rules(
        &self,
        project: &ProjectId,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Rule>, Error> {
        let n_wanted = i64::from(limit) + 1;
        let (at, id) = bounds(after);
        let (rows, assignments) = {
            let rows: Vec<RuleRow> = if after.is_some() {
                query(LIST_AFTER)
                    .bind(project.as_str())
                    .bind(n_wanted)
                    .bind(at)
                    .bind(id)
                    .fetch_all(&self.pool)
                    .await?
            } else {
                query(LIST_FIRST)
                    .bind(project.as_str())
                    .bind(n_wanted)
                    .fetch_all(&self.pool)
                    .await?
            };
            let assignments: Vec<AssignmentRow> = match (rows.first(), rows.last()) {
                (Some(newest), Some(oldest)) => {
                    query(LIST_ASSIGNMENTS)
                        .bind(project.as_str())
                        .bind(newest.created_at)
                        .bind(&newest.id)
                        .bind(oldest.created_at)
                        .bind(&oldest.id)
                        .fetch_all(&self.pool)
                        .await?
                }
                _ => Vec::new(),
            };
            (rows, assignments)
        };
        let rules = assemble(rows, assignments)?.into_iter();
        let rules = rules.map(|(_, rule)| rule).collect();
        Ok(Page::cut(rules, limit, |rule: &Rule| Cursor::new(rule.created_at, rule.id.to_string())))
    }

    /// Number of paused rules among the enabled rules of a project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn n_paused_rules(&self, project: &ProjectId) -> Result<u64, Error> {
        let n: i64 =
            query_scalar(COUNT_PAUSED).bind(project.as_str()).fetch_one(&self.pool).await?;
        Ok(n.unsigned_abs())
    }

    /// The rules of a project with the rules they wait for.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rule_links(&self, project: &ProjectId) -> Result<Vec<ChainRule>, Error> {
        read_links((&self.pool).into(), project).await
    }

    /// The enabled rules of a project, including paused ones, at most [`MAX_ACTIVE_RULES`].
    ///
    /// # Errors
    /// When the database fails.
    pub async fn enabled_rules(&self, project: &ProjectId) -> Result<Vec<Rule>, Error> {
        let rules: Vec<RuleRow> =
            query(ENABLED_OF).bind(project.as_str()).fetch_all(&self.pool).await?;
        let assignments: Vec<AssignmentRow> =
            query(ENABLED_ASSIGNMENTS_OF).bind(project.as_str()).fetch_all(&self.pool).await?;
        let rules = assemble(rules, assignments)?.into_iter();
        Ok(rules.map(|(_, rule)| rule).collect())
    }

    /// Whether a rule is enabled and uses this evaluator, which is not paused. A pause of the rule does not
    /// count: its probes run anyway.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn runs(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        evaluator: &EvaluatorId,
    ) -> Result<bool, Error> {
        let n: i64 = query_scalar(RUNS)
            .bind(project.as_str())
            .bind(rule.as_str())
            .bind(evaluator.as_str())
            .fetch_one(&self.pool)
            .await?;
        Ok(0 < n)
    }

    /// Creates a rule. Its creation time is read from `clock` inside the transaction; a pause in it is not
    /// written.
    ///
    /// # Errors
    /// [`Error::NotFound`] if an evaluator is not of this project; [`Error::Conflict`] if the id is taken, if
    /// the rule is enabled without an evaluator, if it may not wait for a rule it names ([`chain::check`]),
    /// or if the project has [`MAX_ACTIVE_RULES`] already; [`Error::NameTaken`] if another rule is a
    /// duplicate ([`Rule::is_duplicate_of`]).
    pub async fn create_rule(
        &self,
        project: &ProjectId,
        rule: &Rule,
        clock: &dyn Clock,
    ) -> Result<Rule, Error> {
        let mut rule = rule.clone();
        in_transaction!(&self.pool, |tx| {
            query(RAISE).execute(&mut tx).await?;
            // No matcher commits now: targets that were matched without this rule arrived before this time.
            rule.created_at = clock.now();
            rule.updated_at = rule.created_at;
            let existing: Option<RuleRow> = query(GET)
                .bind(project.as_str())
                .bind(rule.id.as_str())
                .fetch_optional(&mut tx)
                .await?;
            if existing.is_some() {
                return Err(Error::Conflict("a rule with this id exists"));
            }
            refuse_duplicate(&mut tx, project, &rule).await?;
            write_rule(&mut tx, project, &rule).await?;
            record_change(&mut tx, project, None, &rule).await?;
            audit::note(AUDITED, rule.id.as_str(), None, Some(rule.definition()));
        });
        Ok(rule)
    }

    /// Changes a rule at the time that `clock` has inside the transaction, and returns the new rule. The
    /// patch is applied to the stored rule and not to the one that the caller read: two patches of different
    /// fields both take effect. Enabling a paused rule resumes it.
    ///
    /// # Errors
    /// As [`Catalog::create_rule`]; also [`Error::NotFound`] if the project has no such rule, and [`Error::Conflict`]
    /// if its revision is not that of the patch.
    pub async fn patch_rule(
        &self,
        project: &ProjectId,
        id: &RuleId,
        patch: &RulePatch,
        clock: &dyn Clock,
    ) -> Result<Rule, Error> {
        Ok(in_transaction!(&self.pool, |tx| {
            query(RAISE).execute(&mut tx).await?;
            let now = clock.now();
            let mut rule =
                read_rule((&mut tx).into(), project, id).await?.ok_or(Error::NotFound)?;
            let before = rule.clone();
            if patch.revision.is_some_and(|seen| seen != before.revision()) {
                return Err(Error::Conflict(OTHER_REVISION));
            }
            patch.apply(&mut rule, now);
            // Duplicates from before they were refused can still be disabled.
            if !rule.is_duplicate_of(&before) {
                refuse_duplicate(&mut tx, project, &rule).await?;
            }
            write_rule(&mut tx, project, &rule).await?;
            record_change(&mut tx, project, Some(&before), &rule).await?;
            let states = (Some(before.definition()), Some(rule.definition()));
            audit::note(AUDITED, id.as_str(), states.0, states.1);
            let waits_for_budget = patch.budget.is_some()
                && rule.paused.as_ref().is_some_and(|pause| pause.reason == Pause::BUDGET_REACHED);
            let resumes = patch.enabled == Some(true) || waits_for_budget;
            if resumes && rule.paused.take().is_some() {
                query(UNPAUSE)
                    .bind(project.as_str())
                    .bind(id.as_str())
                    .bind(now.as_micros())
                    .execute(&mut tx)
                    .await?;
            }
            rule
        }))
    }

    /// Pauses a rule. With a revision in `seen`, only if it is still the revision of the catalog.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn pause_rule(
        &self,
        project: &ProjectId,
        id: &RuleId,
        pause: &Pause,
        seen: Option<i64>,
    ) -> Result<PauseOutcome, Error> {
        let n_paused = in_transaction!(&self.pool, |tx| {
            if !raise_from(&mut tx, seen).await? {
                return Ok(PauseOutcome::Outdated);
            }
            query(PAUSE)
                .bind(project.as_str())
                .bind(id.as_str())
                .bind(&pause.reason)
                .bind(&pause.message)
                .bind(pause.at.as_micros())
                .bind(pause.until.map(Timestamp::as_micros))
                .execute(&mut tx)
                .await?
        });
        Ok(PauseOutcome::of(n_paused))
    }

    /// Sets a new end of a rule's pause if the stored end is still `seen`; `false` otherwise.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn move_pause(
        &self,
        project: &ProjectId,
        id: &RuleId,
        (seen, end): (Timestamp, Timestamp),
    ) -> Result<bool, Error> {
        in_transaction!(&self.pool, |tx| {
            query(RAISE).execute(&mut tx).await?;
            let n_moved = query(MOVE_PAUSE)
                .bind(project.as_str())
                .bind(id.as_str())
                .bind(seen.as_micros())
                .bind(end.as_micros())
                .execute(&mut tx)
                .await?;
            // Nothing is committed: the catalog is unchanged.
            if n_moved == 0 {
                return Ok(false);
            }
        });
        Ok(true)
    }

    /// Resumes a rule that was paused by its circuit breaker.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_breaker(
        &self,
        project: &ProjectId,
        id: &RuleId,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let n_ended = in_transaction!(&self.pool, |tx| {
            query(RAISE).execute(&mut tx).await?;
            query(END_BREAKER)
                .bind(project.as_str())
                .bind(id.as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?
        });
        Ok(0 < n_ended)
    }

    /// Deletes a rule with its assignments. Its scores stay; other rules no longer wait for it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such rule.
    pub async fn delete_rule(&self, project: &ProjectId, id: &RuleId) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            query(RAISE).execute(&mut tx).await?;
            let rule = read_rule((&mut tx).into(), project, id).await?.ok_or(Error::NotFound)?;
            audit::note(AUDITED, id.as_str(), Some(rule.definition()), None);
            remove_from_others(&mut tx, project, id).await?;
            delete_changes(&mut tx, project, id).await?;
            query(DELETE).bind(project.as_str()).bind(id.as_str()).execute(&mut tx).await?;
        });
        Ok(())
    }
}
