//! Reading scores.

use std::collections::{BTreeSet, HashMap};

use super::query::{ScoreStatement, leaves_few};
use super::write::place_of;
use perpend_domain::evaluation::Target;
use perpend_domain::ids::{
    EvaluatorId, ExecutionId, ObservationId, ProjectId, RuleId, ScoreId, SessionId, TraceId,
};
use perpend_domain::score::{NewScore, Score, ScoreDataType, ScoreOrigin, ScoreValue, Subject};
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};
use perpend_db::{Cell, ColumnType, Pool, Row, checked, digest, from_json, query, query_scalar};
use perpend_domain::list::{ChangeCursor, ChangeWindow, Cursor, NumberedPage, Page, Paging};
use perpend_domain::text_search::SearchCursor;

perpend_db::record! {
    pub(super) struct ScoreRow {
        id: String,
        trace_id: Option<String>,
        observation_id: Option<String>,
        session_id: Option<String>,
        experiment_id: Option<String>,
        name: String,
        data_type: String,
        number: Option<f64>,
        text: Option<String>,
        source: String,
        timestamp: i64,
        environment: String,
        comment: Option<String>,
        metadata: String,
        config_id: Option<String>,
        queue_id: Option<String>,
        author_user_id: Option<String>,
        origin: OriginRow,
        created_at: i64,
        updated_at: i64,
    }
}

perpend_db::record! {
    struct OriginRow {
        execution_id: Option<String>,
        evaluator_id: Option<String>,
        evaluator_version_id: Option<String>,
        rule_id: Option<String>,
        fingerprint: Option<Vec<u8>>,
        inclusion_probability: Option<f64>,
        given_name: Option<String>,
    }
}

perpend_db::record! {
    struct SupersededRow {
        score: ScoreRow,
        superseded_by: String,
    }
}

pub(super) const COLUMNS: &str = "
    s.id, s.trace_id, s.observation_id, s.session_id, s.experiment_id, s.name, s.data_type, s.number,
    s.text, s.source, s.timestamp, s.environment, s.comment, s.metadata, s.config_id, s.queue_id,
    s.author_user_id, s.execution_id, s.evaluator_id, s.evaluator_version_id, s.rule_id, s.fingerprint,
    s.inclusion_probability, s.given_name, s.created_at, s.updated_at";

/// The texts without repetitions.
fn distinct<'v>(texts: impl Iterator<Item = &'v str>) -> std::vec::IntoIter<&'v str> {
    let texts: BTreeSet<&str> = texts.collect();
    texts.into_iter().collect::<Vec<_>>().into_iter()
}

fn inconsistent(detail: &str) -> Error {
    Error::Inconsistent { what: "score", detail: detail.to_owned() }
}

impl OriginRow {
    /// Whether there is an origin depends on the execution. Scores from before evaluators named them are
    /// stored under the name in the plug-in's result.
    fn origin(self, stored_name: &str) -> Result<Option<ScoreOrigin>, Error> {
        let Some(execution) = self.execution_id else {
            return Ok(None);
        };
        let absent = || inconsistent("a part of the origin is absent");
        Ok(Some(ScoreOrigin {
            execution_id: checked("score", &execution)?,
            evaluator_id: checked("score", &self.evaluator_id.ok_or_else(absent)?)?,
            evaluator_version_id: checked("score", &self.evaluator_version_id.ok_or_else(absent)?)?,
            rule_id: checked("score", &self.rule_id.ok_or_else(absent)?)?,
            fingerprint: digest("score", &self.fingerprint.ok_or_else(absent)?)?,
            inclusion_probability: self.inclusion_probability.ok_or_else(absent)?,
            score_name: self.given_name.unwrap_or_else(|| stored_name.to_owned()),
        }))
    }
}

/// The subject from the columns of trace and observation, and of session and experiment.
pub(super) fn subject(
    [trace, observation]: [Option<&str>; 2],
    others: [Option<&str>; 2],
) -> Result<Subject, Error> {
    match (trace, observation, others) {
        (Some(trace), None, [None, None]) => Ok(Subject::Trace(checked("score", trace)?)),
        (Some(trace), Some(observation), [None, None]) => {
            Ok(Subject::Observation(checked("score", trace)?, checked("score", observation)?))
        }
        (None, None, [Some(session), None]) => Ok(Subject::Session(session.to_owned())),
        (None, None, [None, Some(experiment)]) => Ok(Subject::Experiment(experiment.to_owned())),
        _ => Err(inconsistent("it has not exactly one target")),
    }
}

impl ScoreRow {
    fn subject(&self) -> Result<Subject, Error> {
        subject(
            [self.trace_id.as_deref(), self.observation_id.as_deref()],
            [self.session_id.as_deref(), self.experiment_id.as_deref()],
        )
    }
}

/// The value of a score from its columns.
pub(crate) fn score_value(
    number: Option<f64>,
    text: Option<String>,
    kind: &str,
) -> Result<ScoreValue, Error> {
    let number = number.ok_or_else(|| inconsistent("the number is absent"));
    let text = text.ok_or_else(|| inconsistent("the text is absent"));
    Ok(match checked("score", kind)? {
        ScoreDataType::Numeric => ScoreValue::Numeric(number?),
        ScoreDataType::Boolean => ScoreValue::Boolean(number? != 0.0),
        ScoreDataType::Categorical => ScoreValue::Categorical(text?),
        ScoreDataType::Text => ScoreValue::Text(text?),
        ScoreDataType::Correction => ScoreValue::Correction(text?),
    })
}

impl TryFrom<ScoreRow> for Score {
    type Error = Error;

    fn try_from(row: ScoreRow) -> Result<Self, Error> {
        let subject = row.subject()?;
        let origin = row.origin.origin(&row.name)?;
        Ok(Self {
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
            written: NewScore {
                id: checked("score", &row.id)?,
                name: row.name,
                value: score_value(row.number, row.text, &row.data_type)?,
                subject,
                source: checked("score", &row.source)?,
                timestamp: Timestamp::from_micros(row.timestamp),
                environment: row.environment,
                comment: row.comment,
                metadata: from_json("score", &row.metadata)?,
                config_id: row.config_id,
                queue_id: row.queue_id,
                author_user_id: row.author_user_id,
                origin,
            },
        })
    }
}

const NEWEST_FIRST: &str = " ORDER BY s.timestamp DESC, s.id DESC";
/// For selective conditions: SQLite would read a whole project in order instead of sorting a few rows. The
/// plus makes the index of the column unusable.
const FEW_NEWEST_FIRST: &str = " ORDER BY +s.timestamp DESC, s.id DESC";

/// The matching scores, newest first, after a position in the list.
pub(super) fn list(
    pool: &Pool,
    query: &ScoreQuery,
    project: &ProjectId,
    after: Option<&Cursor>,
) -> ScoreStatement {
    let mut statement = ScoreStatement::select_newest(COLUMNS, project);
    statement.filter(pool, query);
    if let Some(cursor) = after {
        statement.push(match leaves_few(query) {
            true => " AND (+s.timestamp, s.id) < (",
            false => " AND (s.timestamp, s.id) < (",
        });
        statement.integer(cursor.at.as_micros());
        statement.push(", ");
        statement.text(&cursor.id);
        statement.push(")");
    }
    statement.push(match leaves_few(query) {
        true => FEW_NEWEST_FIRST,
        false => NEWEST_FIRST,
    });
    statement
}

/// Traces per statement.
const TRACES_PER_STATEMENT: usize = 256;
/// Bytes of a page that is continued by a cursor. The page ends early if its scores are large.
const PART_BYTES: usize = 4 << 20;

impl Telemetry {
    /// The first of the scores, up to the bytes of a part; `true` if there are more.
    async fn fetch_part(&self, statement: ScoreStatement) -> Result<(Vec<Score>, bool), Error> {
        let ScoreStatement { sql, args, .. } = statement;
        let query = query(sql).bind_all(&args);
        let (rows, is_cut): (Vec<ScoreRow>, bool) =
            query.fetch_up_to(&self.pool, PART_BYTES).await?;
        let scores = rows.into_iter().map(TryInto::try_into);
        Ok((scores.collect::<Result<_, _>>()?, is_cut))
    }

    pub(super) async fn fetch_scores(
        &self,
        statement: ScoreStatement,
    ) -> Result<Vec<Score>, Error> {
        let ScoreStatement { sql, args, .. } = statement;
        let rows: Vec<ScoreRow> = query(sql).bind_all(&args).fetch_all(&self.pool).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// One score.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score(&self, project: &ProjectId, id: &ScoreId) -> Result<Option<Score>, Error> {
        let mut statement = ScoreStatement::select(COLUMNS, project);
        statement.push(" AND s.id = ");
        statement.text(id.as_str());
        Ok(self.fetch_scores(statement).await?.pop())
    }

    /// The superseded scores of an execution, and the later execution over the same target.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn superseded_scores(
        &self,
        project: &ProjectId,
        target: &Target,
        execution: &ExecutionId,
    ) -> Result<Vec<(Score, ExecutionId)>, Error> {
        let (place, over) = place_of(target);
        let column = ["trace_id", "session_id", "experiment_id"][place];
        let rows: Vec<SupersededRow> = query(format!(
            "SELECT {COLUMNS}, s.superseded_by FROM superseded_scores s \
             WHERE s.project_id = $1 AND s.{column} = $2 AND s.execution_id = $3 ORDER BY s.id"
        ))
        .bind(project.as_str())
        .bind(over)
        .bind(execution.as_str())
        .fetch_all(&self.pool)
        .await?;
        rows.into_iter()
            .map(|row| Ok((row.score.try_into()?, checked("score", &row.superseded_by)?)))
            .collect()
    }

    /// Scores of a project, newest first, after a position in the list.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores(
        &self,
        project: &ProjectId,
        query: &ScoreQuery,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Score>, Error> {
        let mut statement = list(&self.pool, query, project, after);
        statement.push(" LIMIT ");
        statement.integer(i64::from(limit) + 1);
        let (items, is_cut) = self.fetch_part(statement).await?;
        Ok(Page::part(items, is_cut, limit, |score| {
            Cursor::new(score.written.timestamp, score.written.id.to_string())
        }))
    }

    /// Scores whose last change is in the window, after a position; each with its own position. `true` if
    /// there are more scores although there are fewer than `limit`, because they are large.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn changed_scores(
        &self,
        project: &ProjectId,
        window: &ChangeWindow,
        after: Option<&ChangeCursor>,
        limit: u32,
    ) -> Result<(Vec<(ChangeCursor, Score)>, bool), Error> {
        let mut statement = ScoreStatement::select(COLUMNS, project);
        if let Some(from) = after.map(|place| place.at).or(window.from) {
            statement.push(" AND s.updated_at >= ");
            statement.integer(from.as_micros());
        }
        statement.push(" AND s.updated_at < ");
        statement.integer(window.to.as_micros());
        if let Some(place) = after {
            statement.push(" AND (s.updated_at > ");
            statement.integer(place.at.as_micros());
            statement.push(" OR s.id > ");
            statement.text(&place.key);
            statement.push(")");
        }
        statement.push(" ORDER BY s.updated_at, s.id LIMIT ");
        statement.integer(i64::from(limit));
        let (scores, is_cut) = self.fetch_part(statement).await?;
        let with_place = |score: Score| {
            let (at, key) = (score.updated_at, score.written.id.to_string());
            (ChangeCursor { at, key }, score)
        };
        Ok((scores.into_iter().map(with_place).collect(), is_cut))
    }

    /// A numbered page, from 1, of the scores of a project, newest first. Counts all of them: long lists are
    /// better read with [`Telemetry::scores`].
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_page(
        &self,
        project: &ProjectId,
        query: &ScoreQuery,
        paging: Paging,
    ) -> Result<NumberedPage<Score>, Error> {
        let mut count = ScoreStatement::select("COUNT(*)", project);
        count.filter(&self.pool, query);
        let ScoreStatement { sql, args, .. } = count;
        let n_total: i64 = query_scalar(sql).bind_all(&args).fetch_one(&self.pool).await?;
        let mut statement = list(&self.pool, query, project, None);
        statement.push(" LIMIT ");
        statement.integer(i64::from(paging.limit));
        statement.push(" OFFSET ");
        statement.integer(i64::try_from(paging.offset()).unwrap_or(i64::MAX));
        Ok(NumberedPage {
            items: self.fetch_scores(statement).await?,
            n_total: n_total.max(0).cast_unsigned(),
        })
    }

    /// All scores on these traces and on their observations, newest first within the scores of a trace; for
    /// pages with many traces.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_of_traces(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
    ) -> Result<Vec<Score>, Error> {
        let mut scores = Vec::new();
        for some in traces.chunks(TRACES_PER_STATEMENT) {
            let query = ScoreQuery { trace_ids: some.to_vec(), ..ScoreQuery::default() };
            let statement = list(&self.pool, &query, project, None);
            scores.append(&mut self.fetch_scores(statement).await?);
        }
        Ok(scores)
    }

    /// The newest scores on each of these traces and on its observations, at most `limit` per trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn newest_scores_of_traces(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
        per_trace: u32,
    ) -> Result<Vec<Score>, Error> {
        let mut scores = Vec::new();
        for some in traces.chunks(TRACES_PER_STATEMENT) {
            let sql = format!(
                "SELECT {COLUMNS} FROM (SELECT a.*, ROW_NUMBER() OVER \
                   (PARTITION BY a.trace_id ORDER BY a.timestamp DESC, a.id DESC) AS nth \
                   FROM scores a WHERE a.project_id = $1 AND a.trace_id IN ({})) s \
                  WHERE s.nth <= {per_trace} ORDER BY s.timestamp DESC, s.id DESC",
                perpend_db::value_list(some.len(), 2)
            );
            let mut found = query(sql).bind(project.as_str());
            for trace in some {
                found = found.bind(trace.as_str());
            }
            let rows: Vec<ScoreRow> = found.fetch_all(&self.pool).await?;
            for row in rows {
                scores.push(row.try_into()?);
            }
        }
        Ok(scores)
    }

    /// The scores of an evaluator, or of one of its rules, on these targets, newest first for each target. Those on another
    /// observation of a target that is a trace are among them.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_of_evaluator(
        &self,
        project: &ProjectId,
        (evaluator, rule): (&EvaluatorId, Option<&RuleId>),
        targets: &[Target],
    ) -> Result<Vec<Score>, Error> {
        let mut scores = Vec::new();
        for some in targets.chunks(TRACES_PER_STATEMENT) {
            let mut statement = ScoreStatement::select(COLUMNS, project);
            let traces = some.iter().filter_map(Target::trace).map(TraceId::as_str);
            statement.texts("trace_id", distinct(traces));
            let observations = some.iter().filter_map(Target::observation);
            statement.texts("observation_id", distinct(observations.map(ObservationId::as_str)));
            let sessions = some.iter().filter_map(Target::session).map(SessionId::as_str);
            statement.texts("session_id", distinct(sessions));
            statement.push(" AND s.evaluator_id = ");
            statement.text(evaluator.as_str());
            if let Some(rule) = rule {
                statement.push(" AND s.rule_id = ");
                statement.text(rule.as_str());
            }
            statement.push(FEW_NEWEST_FIRST);
            scores.append(&mut self.fetch_scores(statement).await?);
        }
        Ok(scores)
    }

    /// The ids of all scores on these traces and on their observations, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_ids(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
    ) -> Result<HashMap<TraceId, Vec<String>>, Error> {
        let mut found: HashMap<TraceId, Vec<String>> = HashMap::new();
        for some in traces.chunks(TRACES_PER_STATEMENT) {
            let query = ScoreQuery { trace_ids: some.to_vec(), ..ScoreQuery::default() };
            let mut statement = ScoreStatement::select_newest("s.trace_id, s.id", project);
            statement.filter(&self.pool, &query);
            statement.push(FEW_NEWEST_FIRST);
            let ScoreStatement { sql, args, .. } = statement;
            let rows: Vec<(String, String)> =
                perpend_db::query(sql).bind_all(&args).fetch_all(&self.pool).await?;
            for (trace, id) in rows {
                found.entry(checked("score", &trace)?).or_default().push(id);
            }
        }
        Ok(found)
    }

    /// All scores on a session itself, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_of_session(
        &self,
        project: &ProjectId,
        session: &SessionId,
    ) -> Result<Vec<Score>, Error> {
        let query = ScoreQuery { session_ids: vec![session.to_string()], ..ScoreQuery::default() };
        self.fetch_scores(list(&self.pool, &query, project, None)).await
    }

    /// The scores of a run of an experiment as a whole.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_of_run(&self, project: &ProjectId, run: &str) -> Result<Vec<Score>, Error> {
        let query = ScoreQuery { experiment_ids: vec![run.to_owned()], ..ScoreQuery::default() };
        self.fetch_scores(list(&self.pool, &query, project, None)).await
    }

    /// The newest scores on a trace itself, or on one of its observations, at most 1,000.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_about(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        observation: Option<&ObservationId>,
    ) -> Result<Vec<Score>, Error> {
        let mut statement = ScoreStatement::select(COLUMNS, project);
        statement.push(" AND s.trace_id = ");
        statement.text(trace.as_str());
        match observation {
            Some(id) => {
                statement.push(" AND s.observation_id = ");
                statement.text(id.as_str());
            }
            None => statement.push(" AND s.observation_id IS NULL"),
        }
        statement.push(FEW_NEWEST_FIRST);
        statement.push(" LIMIT 1000");
        self.fetch_scores(statement).await
    }

    /// Some of the scores on observations of a trace. At most `limit` are read.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_of_observations(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        limit: u32,
    ) -> Result<Vec<Score>, Error> {
        let mut statement = ScoreStatement::select(COLUMNS, project);
        statement.push(" AND s.trace_id = ");
        statement.text(trace.as_str());
        statement.push(" AND s.observation_id IS NOT NULL LIMIT ");
        statement.integer(limit.into());
        self.fetch_scores(statement).await
    }

    /// Number of scores on observations of a trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn count_observation_scores(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<u64, Error> {
        let n: i64 = query_scalar(
            "SELECT COUNT(*) FROM scores s \
             WHERE s.project_id = $1 AND s.trace_id = $2 AND s.observation_id IS NOT NULL",
        )
        .bind(project.as_str())
        .bind(trace.as_str())
        .fetch_one(&self.pool)
        .await?;
        Ok(n.unsigned_abs())
    }

    /// Passes on the comments of the scores on a trace and its observations, newest first: the id of the
    /// observation, `None` for the trace itself and for an observation that has not arrived, and the comment.
    /// After a position only the comments on observations there.
    pub(crate) async fn each_comment(
        &self,
        project: &ProjectId,
        (trace, number): (&TraceId, i64),
        after: Option<&SearchCursor>,
        mut take: impl FnMut(Option<String>, &str) + Send,
    ) -> Result<(), Error> {
        // The record of a trace is not an observation.
        let comments = "SELECT o.id, s.comment FROM scores s LEFT JOIN observations o ON o.trace = $3 \
             AND o.id = s.observation_id AND o.id <> 't-' || s.trace_id \
             WHERE s.project_id = $1 AND s.trace_id = $2 AND s.comment IS NOT NULL";
        let place = match after {
            Some(_) => " AND (o.started_at, o.id) > ($4, $5)",
            None => "",
        };
        let comments = query(format!("{comments}{place}{FEW_NEWEST_FIRST}"));
        let comments = comments.bind(project.as_str()).bind(trace.as_str());
        let comments = match after {
            Some((start, id)) => comments.bind(number).bind(start.as_micros()).bind(id.as_str()),
            None => comments.bind(number),
        };
        let put = &mut |row: Row| {
            let cells = row.cells(&[ColumnType::Text, ColumnType::Text])?;
            let mut texts = cells.into_iter().map(Cell::into_text);
            let observation = texts.next().flatten();
            if let Some(comment) = texts.next().flatten() {
                take(observation, &comment);
            }
            Ok::<(), Error>(())
        };
        comments.each(&self.pool, put).await
    }

    /// Number of scores on a trace and its observations, and the time of the last write. At most 10,000 of
    /// them are read: above that a change may leave both unchanged.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_mark(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<(i64, i64), Error> {
        let sql = "SELECT COUNT(*), COALESCE(MAX(s.updated_at), 0) FROM (SELECT updated_at FROM scores \
             WHERE project_id = $1 AND trace_id = $2 LIMIT 10000) s";
        let found = query(sql).bind(project.as_str()).bind(trace.as_str());
        let rows: Vec<(i64, i64)> = found.fetch_all(&self.pool).await?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// Number of scores on a trace itself and on each of these observations. Subjects without scores are left
    /// out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_counts(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        observations: &[&str],
    ) -> Result<HashMap<Option<String>, u64>, Error> {
        let mut statement = ScoreStatement::select("s.observation_id, COUNT(*)", project);
        statement.push(" AND s.trace_id = ");
        statement.text(trace.as_str());
        statement.push(" AND (s.observation_id IS NULL");
        for (at, id) in observations.iter().enumerate() {
            statement.push(if at == 0 { " OR s.observation_id IN (" } else { ", " });
            statement.text(id);
        }
        statement.push(if observations.is_empty() { ")" } else { "))" });
        statement.push(" GROUP BY s.observation_id");
        let ScoreStatement { sql, args, .. } = statement;
        let rows: Vec<(Option<String>, i64)> =
            query(sql).bind_all(&args).fetch_all(&self.pool).await?;
        let count = |(id, n): (Option<String>, i64)| (id, n.unsigned_abs());
        Ok(rows.into_iter().map(count).collect())
    }
}
