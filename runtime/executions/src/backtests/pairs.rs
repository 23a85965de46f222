//! Pairs of live scores and results of a backtest.

use perpend_db::{Arg, Sized, Tx, checked, query, value_list, value_rows};
use perpend_domain::backtest::{
    Backtest, CallTotals, LabelPairs, NumberPair, PairedValue, ScorePair, SegmentKind,
};
use perpend_domain::evaluation::Target;
use perpend_domain::ids::{ExecutionId, ObservationId, ProjectId, SessionId, TraceId};
use perpend_domain::score::{ScoreDataType, ScoreValue};
use perpend_domain::time::Timestamp;

use super::super::backfills::stored;
use super::super::row::id_bytes;
use crate::{Error, Ledger};

pub(super) const WHAT: &str = "backtest";
/// Characters that are kept of a comment.
const MAX_COMMENT_CHARS: usize = 2_000;
/// Groups of labels that are read.
const MAX_GROUPS: i64 = 20_000;
/// Pairs of numbers that are read: the newest ones.
const MAX_NUMBERS: i64 = 50_000;
/// Pairs per transaction.
const CHUNK: i64 = 500;

static INSERT: Sized = Sized::new(|n| {
    format!(
        "INSERT INTO backtest_pairs (project_id, backtest_id, number, trace_id, observation_id, session_id, \
         scored_observation_id, name, live_type, live_number, live_label, live_comment, tested_type, tested_number, \
         tested_label, tested_comment, is_numeric, change_rank, model, environment, prompt) VALUES {}",
        value_rows(n, 21, 1)
    )
});
/// `project_id || ''` keeps SQLite from reading all calls of the project.
static CALLS: Sized = Sized::new(|n| {
    format!(
        "SELECT CAST(COALESCE(SUM(CASE WHEN from_cache = 0 THEN 1 ELSE 0 END), 0) AS BIGINT), \
                CAST(COALESCE(SUM(CASE WHEN from_cache = 0 THEN latency_ms ELSE 0 END), 0) AS BIGINT), \
                COALESCE(SUM(COALESCE(cost, 0.0) + COALESCE(saved, 0.0)), 0.0), \
                CAST(COALESCE(SUM(CASE WHEN cost IS NULL AND error_class IS NULL THEN 1 ELSE 0 END), 0) AS BIGINT) \
           FROM model_calls WHERE project_id || '' = $1 AND execution_id IN ({})",
        value_list(n, 2)
    )
});
const NUMBERS: &str = "
    SELECT name, model, environment, prompt, live_number, tested_number
      FROM backtest_pairs
     WHERE project_id = $1 AND backtest_id = $2 AND is_numeric = 1
     ORDER BY number LIMIT $3";
/// The pairs of a deleted trace still count.
pub(crate) const FORGET_COMMENTS: &str = "
    UPDATE backtest_pairs SET live_comment = NULL, tested_comment = NULL WHERE project_id = $1 AND trace_id = $2";
/// The condition on the trace selects the index.
pub(crate) const FORGET_SESSION_COMMENTS: &str = "
    UPDATE backtest_pairs SET live_comment = NULL, tested_comment = NULL
     WHERE project_id = $1 AND trace_id IS NULL AND session_id = $2";
const EXPIRE_COMMENTS: &str = "
    UPDATE backtest_pairs SET live_comment = NULL, tested_comment = NULL
     WHERE (project_id, backtest_id, number) IN
           (SELECT p.project_id, p.backtest_id, p.number
              FROM backtests b JOIN backtest_pairs p ON p.project_id = b.project_id AND p.backtest_id = b.id
             WHERE b.project_id = $1 AND b.to_at <= $2
               AND (p.live_comment IS NOT NULL OR p.tested_comment IS NOT NULL)
             LIMIT $3)";
const FLIPS: &str = "
    SELECT number, trace_id, observation_id, session_id, scored_observation_id, name, live_type, live_number, live_label,
           live_comment, tested_type, tested_number, tested_label, tested_comment, change_rank, model, environment, prompt
      FROM backtest_pairs
     WHERE project_id = $1 AND backtest_id = $2 AND change_rank > 0
       AND (change_rank < $3 OR (change_rank = $3 AND number > $4))
     ORDER BY change_rank DESC, number LIMIT $5";

perpend_db::record! {
    struct NumberRow {
        name: String,
        model: Option<String>,
        environment: String,
        prompt: Option<String>,
        live_number: Option<f64>,
        tested_number: Option<f64>,
    }
}

perpend_db::record! {
    struct FlipRow {
        number: i64,
        trace_id: Option<String>,
        observation_id: Option<String>,
        session_id: Option<String>,
        scored_observation_id: Option<String>,
        name: String,
        live_type: String,
        live_number: Option<f64>,
        live_label: String,
        live_comment: Option<String>,
        tested_type: String,
        tested_number: Option<f64>,
        tested_label: String,
        tested_comment: Option<String>,
        change_rank: i64,
        model: Option<String>,
        environment: String,
        prompt: Option<String>,
    }
}

/// A position in the list of flips: after the flip of this rank and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlipCursor {
    /// The rank of the change.
    pub rank: i64,
    /// The number of the pair.
    pub number: i64,
}

/// A pair with different values.
#[derive(Clone, Debug, PartialEq)]
pub struct Flip {
    /// Its position.
    pub cursor: FlipCursor,
    /// The pair.
    pub pair: ScorePair,
}

/// The label of a side in SQL. Values of different data types are different, so their labels have the type before them.
fn label(side: &str) -> String {
    format!(
        "CASE WHEN live_type = tested_type THEN {side}_label ELSE {side}_type || ' ' || {side}_label END"
    )
}

/// A number with the order of the size of the change: the bits of numbers that are not negative are in their order.
fn rank(pair: &ScorePair) -> i64 {
    pair.change().to_bits().cast_signed()
}

fn kept(comment: Option<&String>) -> Option<&str> {
    let comment = comment?;
    let end = comment.char_indices().nth(MAX_COMMENT_CHARS);
    Some(end.map_or(comment.as_str(), |(end, _)| &comment[..end]))
}

/// A value from its columns.
fn value(kind: &str, number: Option<f64>, label: String) -> Result<ScoreValue, Error> {
    let kind: ScoreDataType = checked(WHAT, kind)?;
    Ok(match kind {
        ScoreDataType::Numeric => ScoreValue::Numeric(number.unwrap_or_default()),
        ScoreDataType::Boolean => ScoreValue::Boolean(label == "true"),
        ScoreDataType::Categorical => ScoreValue::Categorical(label),
        ScoreDataType::Text => ScoreValue::Text(label),
        ScoreDataType::Correction => ScoreValue::Correction(label),
    })
}

impl FlipRow {
    fn target(&self) -> Result<Target, Error> {
        if let Some(session) = &self.session_id {
            return Ok(Target::Session(checked::<SessionId>(WHAT, session)?));
        }
        let trace: TraceId = checked(WHAT, self.trace_id.as_deref().unwrap_or_default())?;
        let observation = self.observation_id.as_deref();
        let observation = observation.map(|id| checked::<ObservationId>(WHAT, id));
        Ok(Target::within(trace, observation.transpose()?))
    }
}

impl TryFrom<FlipRow> for Flip {
    type Error = Error;

    fn try_from(row: FlipRow) -> Result<Self, Error> {
        let scored = row.scored_observation_id.as_deref();
        let scored = scored.map(|id| checked::<ObservationId>(WHAT, id));
        Ok(Self {
            cursor: FlipCursor { rank: row.change_rank, number: row.number },
            pair: ScorePair {
                target: row.target()?,
                observation: scored.transpose()?,
                name: row.name,
                live: PairedValue {
                    value: value(&row.live_type, row.live_number, row.live_label)?,
                    comment: row.live_comment,
                },
                tested: PairedValue {
                    value: value(&row.tested_type, row.tested_number, row.tested_label)?,
                    comment: row.tested_comment,
                },
                model: row.model,
                environment: row.environment,
                prompt: row.prompt,
            },
        })
    }
}

/// A step of a backtest: all of it is written, or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct BacktestStep {
    /// The backtest after the step.
    pub next: Backtest,
    /// The new pairs. They are in the counts.
    pub pairs: Vec<ScorePair>,
}

pub(super) fn totals((calls, latency_ms, cost_usd, unpriced): (i64, i64, f64, i64)) -> CallTotals {
    CallTotals {
        n_calls: calls.unsigned_abs(),
        latency_ms: latency_ms.unsigned_abs(),
        cost_usd,
        n_unpriced: unpriced.unsigned_abs(),
    }
}

/// Inserts the pairs of a step. They are the last ones in its counts.
pub(super) async fn put(tx: &mut Tx, step: &BacktestStep) -> Result<(), Error> {
    let next = &step.next;
    let n_before = stored(next.counts.n_pairs.saturating_sub(step.pairs.len() as u64));
    let numbered: Vec<(i64, &ScorePair)> = (n_before..).zip(&step.pairs).collect();
    tx.execute_for(&INSERT, &numbered, |args, (number, pair)| {
        let target = &pair.target;
        args.extend([
            next.project.as_str().into(),
            next.id.as_str().into(),
            (*number).into(),
            target.trace().map(TraceId::as_str).into(),
            target.observation().map(ObservationId::as_str).into(),
            target.session().map(SessionId::as_str).into(),
            pair.observation.as_ref().map(ObservationId::as_str).into(),
            pair.name.as_str().into(),
            pair.live.value.data_type().as_str().into(),
            pair.live.number().into(),
            pair.live.label().into(),
            kept(pair.live.comment.as_ref()).into(),
            pair.tested.value.data_type().as_str().into(),
            pair.tested.number().into(),
            pair.tested.label().into(),
            kept(pair.tested.comment.as_ref()).into(),
            pair.is_numeric().into(),
            rank(pair).into(),
            pair.model.as_deref().into(),
            pair.environment.as_str().into(),
            pair.prompt.as_deref().into(),
        ]);
    })
    .await?;
    Ok(())
}

impl Ledger {
    /// The numbers of pairs of labels of a backtest, by the segments of a kind; without a kind over all targets. The most
    /// frequent pairs first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn backtest_labels(
        &self,
        project: &ProjectId,
        id: &str,
        kind: Option<SegmentKind>,
    ) -> Result<Vec<LabelPairs>, Error> {
        let segment = match kind {
            None => "CAST(NULL AS TEXT)",
            Some(SegmentKind::Model) => "model",
            Some(SegmentKind::Environment) => "environment",
            Some(SegmentKind::PromptVersion) => "prompt",
        };
        let by = if kind.is_some() { format!(", {segment}") } else { String::new() };
        let (live, tested) = (label("live"), label("tested"));
        let rows: Vec<(String, Option<String>, String, String, i64)> = query(format!(
            "SELECT name, {segment} AS segment, {live} AS live, {tested} AS tested, COUNT(*) AS n FROM backtest_pairs \
              WHERE project_id = $1 AND backtest_id = $2 AND is_numeric = 0 \
              GROUP BY name{by}, {live}, {tested} ORDER BY n DESC, name, live, tested LIMIT $3"
        ))
        .bind(project.as_str())
        .bind(id)
        .bind(MAX_GROUPS)
        .fetch_all(&self.pool)
        .await?;
        let pairs = rows.into_iter().map(|(name, segment, live, tested, n)| LabelPairs {
            name,
            segment,
            live,
            tested,
            n: n.unsigned_abs(),
        });
        Ok(pairs.collect())
    }

    /// The pairs of numbers of a backtest, at most 50,000.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn backtest_numbers(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Vec<NumberPair>, Error> {
        let rows: Vec<NumberRow> = query(NUMBERS)
            .bind(project.as_str())
            .bind(id)
            .bind(MAX_NUMBERS)
            .fetch_all(&self.pool)
            .await?;
        let pairs = rows.into_iter().filter_map(|row| {
            Some(NumberPair {
                live: row.live_number?,
                tested: row.tested_number?,
                name: row.name,
                model: row.model,
                environment: row.environment,
                prompt: row.prompt,
            })
        });
        Ok(pairs.collect())
    }

    /// Pairs with different values, those with the largest change first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn backtest_flips(
        &self,
        project: &ProjectId,
        id: &str,
        after: Option<FlipCursor>,
        limit: u32,
    ) -> Result<Vec<Flip>, Error> {
        let after = after.unwrap_or(FlipCursor { rank: i64::MAX, number: -1 });
        let rows: Vec<FlipRow> = query(FLIPS)
            .bind(project.as_str())
            .bind(id)
            .bind(after.rank)
            .bind(after.number)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Deletes the comments of backtests whose targets all started before a time, in steps. Returns the number of
    /// changed pairs.
    ///
    /// The comments about a trace are deleted with it ([`Ledger::delete_logs`]). These are left by a step that was
    /// evaluating the trace at that time.
    ///
    /// # Errors
    /// When the database fails; some may have been deleted.
    pub async fn expire_backtest_comments(
        &self,
        project: &ProjectId,
        before: Timestamp,
    ) -> Result<u64, Error> {
        let args: [Arg<'_>; 3] = [project.as_str().into(), before.as_micros().into(), CHUNK.into()];
        self.pool.repeat(EXPIRE_COMMENTS, &args).await
    }

    /// The totals of the model calls of these executions.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn call_totals(
        &self,
        project: &ProjectId,
        executions: &[ExecutionId],
    ) -> Result<CallTotals, Error> {
        let ids: Vec<[u8; 16]> = executions.iter().filter_map(id_bytes).collect();
        let mut sum = CallTotals::default();
        let mut rest = ids.as_slice();
        while !rest.is_empty() {
            let (sql, n) = CALLS.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            args.extend(some.iter().map(|id| Arg::from(id.as_slice())));
            let (n_calls, latency_ms, cost_usd, n_unpriced): (i64, i64, f64, i64) =
                query(sql).bind_all(&args).fetch_one(&self.pool).await?;
            sum.add(totals((n_calls, latency_ms, cost_usd, n_unpriced)));
            rest = later;
        }
        Ok(sum)
    }
}
