//! The newest scores of many subjects at once, for lists that show scores in each row.

use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::score::Score;

use super::read::{COLUMNS, ScoreRow};
use crate::{Error, Telemetry};
use perpend_db::Sql;

/// Subjects per statement.
const PER_STATEMENT: usize = 100;

/// Subject of scores.
#[derive(Clone, Copy, Debug)]
pub enum ScoredSubject<'p> {
    /// An experiment.
    Experiment(&'p str),
    /// A trace as a whole, or this observation in it.
    Trace(&'p TraceId, Option<&'p ObservationId>),
    /// Only this observation in a trace.
    Observation(&'p TraceId, &'p ObservationId),
}

perpend_db::record! {
    struct PlacedRow {
        place: i64,
        score: ScoreRow,
    }
}

impl Telemetry {
    /// The newest scores of each of these subjects, at most `limit` of each, in the order of the subjects.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn newest_scores(
        &self,
        project: &ProjectId,
        places: &[ScoredSubject<'_>],
        limit: u32,
    ) -> Result<Vec<Vec<Score>>, Error> {
        let mut found: Vec<Vec<Score>> = vec![Vec::new(); places.len()];
        for (chunk, some) in places.chunks(PER_STATEMENT).enumerate() {
            let first = chunk * PER_STATEMENT;
            let mut sql = Sql::default();
            sql.bind_text(project.as_str());
            for (at, place) in some.iter().enumerate() {
                if at > 0 {
                    sql.push(" UNION ALL ");
                }
                sql.push(&format!(
                    "SELECT * FROM (SELECT CAST({} AS BIGINT) AS place, {COLUMNS} FROM scores s \
                     WHERE s.project_id = $1",
                    first + at
                ));
                match place {
                    ScoredSubject::Experiment(id) => {
                        let id = sql.bind_text(id);
                        sql.push(&format!(" AND s.experiment_id = {id}"));
                    }
                    ScoredSubject::Trace(trace, observation) => {
                        let trace = sql.bind_text(trace.as_str());
                        sql.push(&format!(
                            " AND s.trace_id = {trace} AND (s.observation_id IS NULL"
                        ));
                        if let Some(id) = observation {
                            let id = sql.bind_text(id.as_str());
                            sql.push(&format!(" OR s.observation_id = {id}"));
                        }
                        sql.push(")");
                    }
                    ScoredSubject::Observation(trace, observation) => {
                        let trace = sql.bind_text(trace.as_str());
                        let id = sql.bind_text(observation.as_str());
                        sql.push(&format!(" AND s.trace_id = {trace} AND s.observation_id = {id}"));
                    }
                }
                sql.push(&format!(" ORDER BY s.timestamp DESC, s.id DESC LIMIT {limit}) p{at}"));
            }
            let rows: Vec<PlacedRow> = self.pool.select(&sql.text, &sql.args).await?;
            for row in rows {
                let place = usize::try_from(row.place).ok();
                if let Some(scores) = place.and_then(|place| found.get_mut(place)) {
                    scores.push(row.score.try_into()?);
                }
            }
        }
        Ok(found)
    }

    /// The environments of the newest scores, each with its number of these scores; read from an index alone.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_environments(
        &self,
        project: &ProjectId,
        limit: u32,
    ) -> Result<Vec<(String, u64)>, Error> {
        let mut sql = Sql::default();
        let project = sql.bind_text(project.as_str());
        sql.push(&format!(
            "SELECT e.environment, COUNT(*) FROM (SELECT s.environment AS environment FROM scores s \
              WHERE s.project_id = {project} ORDER BY s.timestamp DESC, s.id DESC LIMIT {limit}) e \
              GROUP BY e.environment ORDER BY COUNT(*) DESC, e.environment"
        ));
        let rows: Vec<(String, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let count = |(environment, n): (String, i64)| (environment, n.unsigned_abs());
        Ok(rows.into_iter().map(count).collect())
    }
}
