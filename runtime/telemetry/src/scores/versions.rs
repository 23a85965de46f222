//! Sums of the scores of versions of evaluators.

use std::collections::BTreeMap;

use perpend_db::{Sql, checked};
use perpend_domain::ids::{EvaluatorVersionId, ProjectId};
use perpend_domain::score::ScoreDataType;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};

/// Versions per statement.
const PER_STATEMENT: usize = 100;
const DAY_MICROS: i64 = 86_400_000_000;

/// The scores of one name by a version of an evaluator.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionScores {
    /// Their name.
    pub name: String,
    /// Type of the values.
    pub data_type: ScoreDataType,
    /// Number of scores.
    pub n: u64,
    /// Sum of numbers; `true` counts as one.
    pub total: f64,
}

impl Telemetry {
    /// The numbers of current scores of each of these versions since a time by UTC day, in the order of the versions. The
    /// newest `limit` scores of each version are read.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn version_scores_by_day(
        &self,
        project: &ProjectId,
        versions: &[EvaluatorVersionId],
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<BTreeMap<Timestamp, u64>>, Error> {
        let mut found: Vec<BTreeMap<Timestamp, u64>> = vec![BTreeMap::new(); versions.len()];
        for (chunk, some) in versions.chunks(PER_STATEMENT).enumerate() {
            let mut sql = Sql::default();
            let project = sql.bind_text(project.as_str());
            let since = sql.bind(since.as_micros().into());
            for (at, version) in some.iter().enumerate() {
                if at > 0 {
                    sql.push(" UNION ALL ");
                }
                let place = chunk * PER_STATEMENT + at;
                let version = sql.bind_text(version.as_str());
                sql.push(&format!(
                    "SELECT CAST({place} AS BIGINT), p{at}.day, COUNT(*) \
                       FROM (SELECT s.timestamp / {DAY_MICROS} AS day FROM scores s \
                              WHERE s.project_id = {project} \
                                AND s.evaluator_version_id = {version} AND s.timestamp >= {since} \
                              ORDER BY s.timestamp DESC, s.id DESC LIMIT {limit}) p{at} \
                      GROUP BY p{at}.day"
                ));
            }
            let rows: Vec<(i64, i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
            for (place, day, n) in rows {
                let days = usize::try_from(place).ok().and_then(|place| found.get_mut(place));
                if let Some(days) = days {
                    days.insert(Timestamp::from_micros(day * DAY_MICROS), n.unsigned_abs());
                }
            }
        }
        Ok(found)
    }

    /// The current scores of each of these versions since a time by name and type, in the order of the versions.
    /// The newest `limit` scores of each version are read.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn version_scores(
        &self,
        project: &ProjectId,
        versions: &[EvaluatorVersionId],
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<Vec<VersionScores>>, Error> {
        let mut found: Vec<Vec<VersionScores>> = vec![Vec::new(); versions.len()];
        for (chunk, some) in versions.chunks(PER_STATEMENT).enumerate() {
            let first = chunk * PER_STATEMENT;
            let mut sql = Sql::default();
            let project = sql.bind_text(project.as_str());
            let since = sql.bind(since.map_or(i64::MIN, Timestamp::as_micros).into());
            for (at, version) in some.iter().enumerate() {
                if at > 0 {
                    sql.push(" UNION ALL ");
                }
                let place = first + at;
                let version = sql.bind_text(version.as_str());
                sql.push(&format!(
                    "SELECT CAST({place} AS BIGINT), p{at}.name, p{at}.data_type, COUNT(*), \
                            COALESCE(SUM(p{at}.number), 0.0) \
                       FROM (SELECT s.name, s.data_type, s.number FROM scores s \
                              WHERE s.project_id = {project} \
                                AND s.evaluator_version_id = {version} AND s.timestamp >= {since} \
                              ORDER BY s.timestamp DESC, s.id DESC LIMIT {limit}) p{at} \
                      GROUP BY p{at}.name, p{at}.data_type"
                ));
            }
            let rows: Vec<(i64, String, String, i64, f64)> =
                self.pool.select(&sql.text, &sql.args).await?;
            for (place, name, data_type, n, total) in rows {
                let data_type = checked("score", &data_type)?;
                let scores = usize::try_from(place).ok().and_then(|place| found.get_mut(place));
                if let Some(scores) = scores {
                    scores.push(VersionScores { name, data_type, n: n.unsigned_abs(), total });
                }
            }
        }
        for scores in &mut found {
            scores.sort_by(|a, b| b.n.cmp(&a.n).then_with(|| a.name.cmp(&b.name)));
        }
        Ok(found)
    }
}
