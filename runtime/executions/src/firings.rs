//! Firings of the cron schedules of rules.
//!
//! The executions of a rule with a schedule are made when their targets are complete, and become due at the next firing.
//! The rows here tell what fired: they are a record, and no execution depends on them.
//!
//! Invariant: **each firing once.** The end of the last window moves in the transaction that writes the firing, on the
//! condition that no other node has moved it.

use perpend_db::{Arg, Error, Sized, checked, despite_collisions, in_transaction, value_list};
use perpend_domain::cron::Schedule;
use perpend_domain::evaluation::ExecutionState;
use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::time::Timestamp;

use super::codes::Coded as _;
use super::read::StateCount;
use crate::Ledger;

const WHAT: &str = "schedule of a rule";
/// Executions per transaction.
const CHUNK: i64 = 500;
/// Firings are kept for a quarter of a year, the last one for ever.
const KEPT_MS: i64 = 92 * 86_400_000;

/// How far the schedule of a rule has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSchedule {
    /// The tenant.
    pub project: ProjectId,
    /// The rule.
    pub rule: RuleId,
    /// The expression for which its executions wait.
    pub cron: String,
    /// The time zone of the expression.
    pub timezone: String,
    /// End of the last window: the last firing, or the start of the first schedule.
    pub window_from: Timestamp,
    /// The last firing, or the start of this schedule. Later firings without a window of their own are missed.
    pub counted_until: Timestamp,
}

impl RuleSchedule {
    /// Whether it is this schedule.
    #[must_use]
    pub fn is(&self, schedule: &Schedule) -> bool {
        self.cron == schedule.expression() && self.timezone == schedule.timezone()
    }
}

/// A firing of the schedule of a rule. It evaluates the targets that were complete in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleFiring {
    /// The time by the schedule, at which its window ends.
    pub fired_at: Timestamp,
    /// Start of its window.
    pub from: Timestamp,
    /// When it was noticed: later if no server ran.
    pub noticed_at: Timestamp,
    /// Earlier firings in its window, during which no server ran.
    pub n_missed: u64,
}

impl RuleFiring {
    /// The sums by state of the counts in its window, from counts in the order of their firing.
    fn states(&self, counts: &[(Timestamp, StateCount)]) -> Vec<StateCount> {
        let first = counts.partition_point(|(firing_at, _)| *firing_at <= self.from);
        let end = counts.partition_point(|(firing_at, _)| *firing_at <= self.fired_at);
        let mut states: Vec<StateCount> = Vec::new();
        for (_, count) in counts.get(first..end).unwrap_or_default() {
            match states.iter_mut().find(|known| known.state == count.state) {
                Some(known) => known.n += count.n,
                None => states.push(*count),
            }
        }
        states
    }
}

perpend_db::record! {
    struct ScheduleRow {
        project_id: String,
        rule_id: String,
        cron: String,
        timezone: String,
        window_from: i64,
        counted_until: i64,
    }
}

perpend_db::record! {
    struct FiringRow {
        fired_at: i64,
        from_at: i64,
        noticed_at: i64,
        n_missed: i64,
    }
}

impl TryFrom<ScheduleRow> for RuleSchedule {
    type Error = Error;

    fn try_from(row: ScheduleRow) -> Result<Self, Error> {
        Ok(Self {
            project: checked(WHAT, &row.project_id)?,
            rule: checked(WHAT, &row.rule_id)?,
            cron: row.cron,
            timezone: row.timezone,
            window_from: Timestamp::from_micros(row.window_from),
            counted_until: Timestamp::from_micros(row.counted_until),
        })
    }
}

impl From<FiringRow> for RuleFiring {
    fn from(row: FiringRow) -> Self {
        Self {
            fired_at: Timestamp::from_micros(row.fired_at),
            from: Timestamp::from_micros(row.from_at),
            noticed_at: Timestamp::from_micros(row.noticed_at),
            n_missed: row.n_missed.unsigned_abs(),
        }
    }
}

const SCHEDULES: &str = "
    SELECT project_id, rule_id, cron, timezone, window_from, counted_until FROM rule_schedules
     ORDER BY project_id, rule_id";
const START: &str = "
    INSERT INTO rule_schedules (project_id, rule_id, cron, timezone, window_from, counted_until)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (project_id, rule_id) DO NOTHING";
const CHANGE: &str = "
    UPDATE rule_schedules SET cron = $5, timezone = $6, counted_until = $7
     WHERE project_id = $1 AND rule_id = $2 AND cron = $3 AND timezone = $4";
const END: &str = "DELETE FROM rule_schedules WHERE project_id = $1 AND rule_id = $2";
const MOVE: &str = "
    UPDATE rule_schedules SET window_from = $4, counted_until = $4
     WHERE project_id = $1 AND rule_id = $2 AND counted_until = $3 AND cron = $5 AND timezone = $6";
const FIRE: &str = "
    INSERT INTO rule_firings (project_id, rule_id, fired_at, from_at, noticed_at, n_missed)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (project_id, rule_id, fired_at) DO NOTHING";
const FORGET: &str =
    "DELETE FROM rule_firings WHERE project_id = $1 AND rule_id = $2 AND fired_at < $3";
const FORGET_ALL: &str = "DELETE FROM rule_firings WHERE project_id = $1 AND rule_id = $2";
const FIRINGS: &str = "
    SELECT fired_at, from_at, noticed_at, n_missed FROM rule_firings
     WHERE project_id = $1 AND rule_id = $2 ORDER BY fired_at DESC LIMIT $3";
const MISSED: &str = "
    SELECT CAST(COALESCE(SUM(n_missed), 0) AS BIGINT) FROM rule_firings
     WHERE project_id = $1 AND rule_id = $2 AND fired_at >= $3";
const STATES: &str = "
    SELECT firing_at, state, COUNT(*) FROM executions
     WHERE project_id = $1 AND rule_id = $2 AND firing_at > $3 AND firing_at <= $4
     GROUP BY firing_at, state ORDER BY firing_at, state";
/// Executions that wait for a firing are due at it. Those of another attempt are due at another time.
const DEFER: &str = "
    UPDATE executions SET due_at = $4, firing_at = $4
     WHERE state = 2 AND due_at = firing_at AND seq IN
           (SELECT seq FROM executions
             WHERE project_id = $1 AND rule_id = $2 AND firing_at > $3 AND firing_at <> $4
               AND state = 2 AND due_at = firing_at LIMIT $5)";
const LET_GO: &str = "
    UPDATE executions SET state = 0, due_at = $3, firing_at = NULL
     WHERE state = 2 AND due_at = firing_at AND seq IN
           (SELECT seq FROM executions
             WHERE project_id = $1 AND rule_id = $2 AND firing_at > $3 AND state = 2 AND due_at = firing_at
             LIMIT $4)";

static END_WAIT: Sized = Sized::repeatable(|n| {
    format!(
        "UPDATE executions SET state = 0, due_at = $2, firing_at = NULL \
         WHERE project_id = $1 AND state = 2 AND due_at = firing_at AND seq IN ({})",
        value_list(n, 3)
    )
});

fn of<'a>(project: &'a ProjectId, rule: &'a RuleId) -> [Arg<'a>; 2] {
    [project.as_str().into(), rule.as_str().into()]
}

impl Ledger {
    /// The schedules of all rules. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rule_schedules(&self) -> Result<Vec<RuleSchedule>, Error> {
        let rows: Vec<ScheduleRow> = self.pool.select(SCHEDULES, &[]).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Notes a schedule; without effect if the rule has one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn start_schedule(&self, new: &RuleSchedule) -> Result<(), Error> {
        let more = [
            new.cron.as_str().into(),
            new.timezone.as_str().into(),
            Arg::from(new.window_from.as_micros()),
            new.counted_until.as_micros().into(),
        ];
        self.pool.change(START, &[&of(&new.project, &new.rule)[..], &more].concat()).await?;
        Ok(())
    }

    /// Notes that the executions of a rule wait for another schedule now.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn change_schedule(
        &self,
        known: &RuleSchedule,
        schedule: &Schedule,
        now: Timestamp,
    ) -> Result<(), Error> {
        let more = [
            Arg::from(known.cron.as_str()),
            known.timezone.as_str().into(),
            schedule.expression().into(),
            schedule.timezone().into(),
            now.as_micros().into(),
        ];
        self.pool.change(CHANGE, &[&of(&known.project, &known.rule)[..], &more].concat()).await?;
        Ok(())
    }

    /// Removes the schedule of a rule that has none any more, or does not run.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_schedule(&self, project: &ProjectId, rule: &RuleId) -> Result<(), Error> {
        self.pool.change(END, &of(project, rule)).await?;
        Ok(())
    }

    /// Deletes the firings of a deleted rule.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn forget_firings(&self, project: &ProjectId, rule: &RuleId) -> Result<(), Error> {
        self.pool.change(FORGET_ALL, &of(project, rule)).await?;
        Ok(())
    }

    /// Writes a firing, with which the next window starts. `false` if another node has written it.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn fire(&self, known: &RuleSchedule, firing: &RuleFiring) -> Result<bool, Error> {
        despite_collisions!(self.fire_once(known, firing).await)
    }

    async fn fire_once(&self, known: &RuleSchedule, firing: &RuleFiring) -> Result<bool, Error> {
        let of = of(&known.project, &known.rule);
        let moved = [
            Arg::from(known.counted_until.as_micros()),
            firing.fired_at.as_micros().into(),
            known.cron.as_str().into(),
            known.timezone.as_str().into(),
        ];
        let fired = [
            Arg::from(firing.fired_at.as_micros()),
            firing.from.as_micros().into(),
            firing.noticed_at.as_micros().into(),
            i64::try_from(firing.n_missed).unwrap_or(i64::MAX).into(),
        ];
        let oldest = [Arg::from(firing.fired_at.plus_millis(-KEPT_MS).as_micros())];
        in_transaction!(&self.pool, |tx| {
            if tx.execute(MOVE, &[&of[..], &moved].concat()).await? != 1 {
                return Ok(false);
            }
            tx.reach("firing: moved")?;
            tx.execute(FIRE, &[&of[..], &fired].concat()).await?;
            tx.execute(FORGET, &[&of[..], &oldest].concat()).await?;
        });
        Ok(true)
    }

    /// Lets the executions of a rule that wait for a firing wait for the one at `firing_at`, or for none. Returns their
    /// number.
    ///
    /// # Errors
    /// When the database fails; some may have been changed.
    pub async fn reschedule(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        firing_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let now = [Arg::from(now.as_micros())];
        let chunk = [Arg::from(CHUNK)];
        let of = of(project, rule);
        match firing_at {
            Some(at) => {
                let at = [Arg::from(at.as_micros())];
                self.pool.repeat(DEFER, &[&of[..], &now, &at, &chunk].concat()).await
            }
            None => self.pool.repeat(LET_GO, &[&of[..], &now, &chunk].concat()).await,
        }
    }

    /// Lets executions start that wait for a firing. Others are left unchanged.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn end_wait_for_firing(
        &self,
        project: &ProjectId,
        seqs: &[i64],
        now: Timestamp,
    ) -> Result<(), Error> {
        let first = [Arg::from(project.as_str()), now.as_micros().into()];
        in_transaction!(&self.pool, |tx| {
            let mut rest = seqs;
            while !rest.is_empty() {
                let push = |args: &mut Vec<_>, seq: &i64| args.push((*seq).into());
                (_, rest) = tx.execute_some(&END_WAIT, &first, rest, push).await?;
            }
        });
        Ok(())
    }

    /// The last firings of a rule, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn firings(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        limit: u32,
    ) -> Result<Vec<RuleFiring>, Error> {
        let limit = [Arg::from(i64::from(limit))];
        let args = [&of(project, rule)[..], &limit].concat();
        let rows: Vec<FiringRow> = self.pool.select(FIRINGS, &args).await?;
        Ok(rows.into_iter().map(Into::into).collect())
    }

    /// Number of firings of a rule since a time during which no server ran.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn n_missed_firings(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        since: Timestamp,
    ) -> Result<u64, Error> {
        let since = [Arg::from(since.as_micros())];
        let args = [&of(project, rule)[..], &since].concat();
        let rows: Vec<(i64,)> = self.pool.select(MISSED, &args).await?;
        Ok(rows.first().map_or(0, |(n,)| n.unsigned_abs()))
    }

    /// The executions of each of these firings of a rule by state, in the order of the firings: those that wait or waited
    /// for a firing in its window. A state without any is missing.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn firing_states(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        firings: &[RuleFiring],
    ) -> Result<Vec<Vec<StateCount>>, Error> {
        let from = firings.iter().map(|firing| firing.from).min();
        let to = firings.iter().map(|firing| firing.fired_at).max();
        let (Some(from), Some(to)) = (from, to) else {
            return Ok(Vec::new());
        };
        let range = [Arg::from(from.as_micros()), to.as_micros().into()];
        let args = [&of(project, rule)[..], &range].concat();
        let rows: Vec<(i64, i16, i64)> = self.pool.select(STATES, &args).await?;
        let count = |(firing_at, code, n): (i64, i16, i64)| {
            let count = StateCount { state: ExecutionState::of_code(code)?, n: n.unsigned_abs() };
            Ok((Timestamp::from_micros(firing_at), count))
        };
        let counts = rows.into_iter().map(count).collect::<Result<Vec<_>, Error>>()?;
        Ok(firings.iter().map(|firing| firing.states(&counts)).collect())
    }
}
