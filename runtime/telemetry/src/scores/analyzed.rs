//! Reading the scores of a name for statistics.

use std::collections::BTreeMap;

use perpend_domain::ids::ProjectId;
use perpend_domain::score::ScoreDataType;
use perpend_domain::score_analytics::{AnalyzedScore, MeasuredScore};
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::time::Timestamp;
use serde::Deserialize;

use super::query::ScoreStatement;
use super::read::{score_value, subject};
use crate::{Error, Telemetry};
use perpend_db::{Record as _, Row, RowSink, Sql, checked, query};

perpend_db::record! {
    struct AnalyzedRow {
        trace_id: Option<String>,
        observation_id: Option<String>,
        session_id: Option<String>,
        experiment_id: Option<String>,
        data_type: String,
        number: Option<f64>,
        text: Option<String>,
        timestamp: i64,
        environment: String,
        evaluator_id: Option<String>,
        evaluator_version_id: Option<String>,
        inclusion_probability: Option<f64>,
        model: Option<String>,
        prompt_name: Option<String>,
        prompt_version: Option<i64>,
        release: Option<String>,
        trace_started_at: Option<i64>,
        trace_environment: Option<String>,
    }
}

perpend_db::record! {
    struct MeasuredRow {
        trace_id: Option<String>,
        observation_id: Option<String>,
        session_id: Option<String>,
        experiment_id: Option<String>,
        data_type: String,
        number: Option<f64>,
        text: Option<String>,
        timestamp: i64,
        metadata: String,
    }
}

/// The part of the metadata that a judge with log-probabilities writes.
#[derive(Deserialize)]
struct MeasuredMetadata {
    distribution: BTreeMap<String, f64>,
}

perpend_db::record! {
    struct NameRow {
        name: String,
    }
}

const COLUMNS: &str = "
    s.trace_id, s.observation_id, s.session_id, s.experiment_id, s.data_type, s.number, s.text,
    s.timestamp, s.environment, s.evaluator_id, s.evaluator_version_id, s.inclusion_probability,
    o.model, o.prompt_name, o.prompt_version, t.release, t.started_at AS trace_started_at,
    t.environment AS trace_environment";
const MEASURED_COLUMNS: &str = "
    s.trace_id, s.observation_id, s.session_id, s.experiment_id, s.data_type, s.number, s.text, s.timestamp, s.metadata";
const OBSERVATION: &str = "
    LEFT JOIN traces t ON t.tenant = $2 AND t.trace_id = s.trace_id
    LEFT JOIN observations o ON o.trace = t.number AND o.id = s.observation_id";
/// Types with values that can be counted or added up.
const TYPES: [ScoreDataType; 3] =
    [ScoreDataType::Numeric, ScoreDataType::Boolean, ScoreDataType::Categorical];

impl TryFrom<AnalyzedRow> for AnalyzedScore {
    type Error = Error;

    fn try_from(row: AnalyzedRow) -> Result<Self, Error> {
        let version = match (&row.evaluator_id, &row.evaluator_version_id) {
            (Some(evaluator), Some(version)) => {
                Some((checked("score", evaluator)?, checked("score", version)?))
            }
            _ => None,
        };
        let is_share = |probability: &f64| 0.0 < *probability && *probability <= 1.0;
        Ok(Self {
            value: score_value(row.number, row.text, &row.data_type)?,
            subject: subject(
                [row.trace_id.as_deref(), row.observation_id.as_deref()],
                [row.session_id.as_deref(), row.experiment_id.as_deref()],
            )?,
            timestamp: Timestamp::from_micros(row.timestamp),
            environment: row.environment,
            version,
            // Scores without a probability are stored with 0 or null.
            probability: row.inclusion_probability.filter(is_share).unwrap_or(1.0),
            model: row.model,
            prompt: row.prompt_name.map(|name| (name, row.prompt_version)),
            release: row.release,
            trace_start: row.trace_started_at.map(Timestamp::from_micros),
        })
    }
}

impl TryFrom<MeasuredRow> for MeasuredScore {
    type Error = Error;

    fn try_from(row: MeasuredRow) -> Result<Self, Error> {
        // Clients may write another member of this name.
        let metadata = match row.metadata.contains("\"distribution\"") {
            true => serde_json::from_str::<MeasuredMetadata>(&row.metadata).ok(),
            false => None,
        };
        Ok(Self {
            value: score_value(row.number, row.text, &row.data_type)?,
            subject: subject(
                [row.trace_id.as_deref(), row.observation_id.as_deref()],
                [row.session_id.as_deref(), row.experiment_id.as_deref()],
            )?,
            timestamp: Timestamp::from_micros(row.timestamp),
            distribution: metadata.map(|metadata| metadata.distribution).unwrap_or_default(),
        })
    }
}

impl Telemetry {
    /// Passes the matching numeric, boolean and categorical scores on, in any order. The query has one name. `take` charges the data that it
    /// keeps to the request.
    ///
    /// # Errors
    /// When the database or `take` fails.
    pub async fn each_analyzed_score(
        &self,
        project: &ProjectId,
        scores: &ScoreQuery,
        mut take: impl FnMut(AnalyzedScore) -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        let tenant = self.tenant(project).await?.unwrap_or(0);
        let table = format!("{}{OBSERVATION}", self.scores_by_name());
        let mut statement = ScoreStatement::select_from(&table, COLUMNS, project);
        statement.args.push(tenant.into());
        let is_selected = |own: &String| {
            (scores.environments.is_empty() || scores.environments.contains(own))
                && !scores.other_than_environments.contains(own)
        };
        let put = &mut |row: Row| {
            let mut row = AnalyzedRow::read(&row)?;
            if !row.trace_environment.as_ref().is_some_and(is_selected) {
                row.trace_started_at = None;
            }
            take(row.try_into()?)
        };
        self.each_of(statement, scores, put).await
    }

    /// Passes the matching numeric, boolean and categorical scores on with their distributions, in any order. The query has
    /// one name. `take` charges the data that it keeps to the request.
    ///
    /// # Errors
    /// When the database or `take` fails.
    pub async fn each_measured_score(
        &self,
        project: &ProjectId,
        scores: &ScoreQuery,
        mut take: impl FnMut(MeasuredScore) -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        let table = self.scores_by_name();
        let statement = ScoreStatement::select_from(table, MEASURED_COLUMNS, project);
        let put = &mut |row: Row| take(MeasuredRow::read(&row)?.try_into()?);
        self.each_of(statement, scores, put).await
    }

    /// The table of scores. SQLite has no statistics: it might choose another index.
    const fn scores_by_name(&self) -> &'static str {
        match self.pool.is_postgres() {
            true => "scores s",
            false => "scores s INDEXED BY scores_by_name",
        }
    }

    async fn each_of(
        &self,
        mut statement: ScoreStatement,
        scores: &ScoreQuery,
        put: RowSink<'_>,
    ) -> Result<(), Error> {
        let typed = ScoreQuery { data_types: TYPES.to_vec(), ..scores.clone() };
        statement.filter(&self.pool, &typed);
        let ScoreStatement { sql, args, .. } = statement;
        query(sql).bind_all(&args).each(&self.pool, put).await
    }

    /// The first `limit` names of scores in alphabetical order, each found in an index.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn score_name_list(
        &self,
        project: &ProjectId,
        limit: u32,
    ) -> Result<Vec<String>, Error> {
        let mut sql = Sql::default();
        let project = sql.bind_text(project.as_str());
        sql.push(&format!(
            "WITH RECURSIVE n (name) AS ( \
               SELECT MIN(s.name) FROM scores s WHERE s.project_id = {project} \
               UNION ALL \
               SELECT (SELECT MIN(s.name) FROM scores s WHERE s.project_id = {project} AND s.name > n.name) \
                 FROM n WHERE n.name IS NOT NULL) \
             SELECT n.name AS name FROM n WHERE n.name IS NOT NULL LIMIT {limit}"
        ));
        let rows: Vec<NameRow> = self.pool.select(&sql.text, &sql.args).await?;
        Ok(rows.into_iter().map(|row| row.name).collect())
    }
}
