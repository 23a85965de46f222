//! Scores of older generations, together with the scores that superseded them.

use std::collections::BTreeSet;

use perpend_domain::ids::ProjectId;
use perpend_domain::score::{Score, Subject};

use super::query::ScoreStatement;
use super::read::{COLUMNS, ScoreRow};
use crate::{Error, Telemetry};
use perpend_db::query;

/// Superseded scores that are read for one page of others.
const MAX_SUPERSEDED: u32 = 500;

/// Superseded scores of a list of scores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SupersededScores {
    /// For each score of the list, in its order: the scores that it superseded, newest first.
    pub of_each: Vec<Vec<Score>>,
    /// Whether there are more.
    pub is_cut: bool,
}

perpend_db::record! {
    struct OlderRow {
        score: ScoreRow,
        is_named: i64,
    }
}

/// The trace or the session that an execution evaluated as a whole.
fn judged(score: &Score) -> Option<(usize, &str)> {
    match &score.written.subject {
        Subject::Trace(trace) | Subject::Observation(trace, _) => Some((0, trace.as_str())),
        Subject::Session(session) => Some((1, session.as_str())),
        Subject::Experiment(_) => None,
    }
}

/// Whether both come from one rule and evaluator over one trace or session, so that one superseded the other.
fn is_of_one(a: &Score, b: &Score) -> bool {
    let maker = |score: &Score| {
        let origin = score.written.origin.as_ref();
        origin.map(|origin| (origin.rule_id.clone(), origin.evaluator_id.clone()))
    };
    judged(a) == judged(b) && maker(a).is_some() && maker(a) == maker(b)
}

impl Telemetry {
    /// The scores that these superseded: those of earlier executions of the same rule and evaluator over the
    /// same trace or session. An older score is listed under the newer one with its name, or under the first
    /// one if the newer generation has none with that name. Shadow versions are not counted as generations.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_superseded_by(
        &self,
        project: &ProjectId,
        scores: &[Score],
    ) -> Result<SupersededScores, Error> {
        let mut older = SupersededScores { of_each: vec![Vec::new(); scores.len()], is_cut: false };
        let made = scores.iter().filter(|score| score.written.origin.is_some());
        let all: BTreeSet<(usize, &str)> = made.filter_map(judged).collect();
        for (place, column) in ["trace_id", "session_id"].into_iter().enumerate() {
            let ids = all.iter().filter(|(of, _)| *of == place);
            let ids: Vec<&str> = ids.map(|(_, id)| *id).collect();
            if ids.is_empty() {
                continue;
            }
            // The index of names would lead to all scores of the name.
            let what = format!(
                "{COLUMNS}, CAST(CASE WHEN EXISTS (SELECT 1 FROM scores n WHERE n.project_id = s.project_id \
                   AND n.{column} = s.{column} AND n.rule_id = s.rule_id \
                   AND n.evaluator_id = s.evaluator_id AND n.name || '' = s.name) \
                 THEN 1 ELSE 0 END AS BIGINT) AS is_named"
            );
            let mut statement = ScoreStatement::select_from("superseded_scores s", &what, project);
            statement.texts(column, ids.into_iter());
            statement.push(" AND s.superseded_by <> s.execution_id");
            statement.push(" ORDER BY s.timestamp DESC, s.id DESC LIMIT ");
            statement.integer(i64::from(MAX_SUPERSEDED) + 1);
            let ScoreStatement { sql, args, .. } = statement;
            let mut rows: Vec<OlderRow> = query(sql).bind_all(&args).fetch_all(&self.pool).await?;
            older.is_cut |= (MAX_SUPERSEDED as usize) < rows.len();
            rows.truncate(MAX_SUPERSEDED as usize);
            for row in rows {
                let (score, is_named) = (Score::try_from(row.score)?, row.is_named != 0);
                let index = scores.iter().position(|newer| {
                    let is_of_name = newer.written.name == score.written.name;
                    is_of_one(newer, &score) && (is_of_name || !is_named)
                });
                if let Some(index) = index {
                    older.of_each[index].push(score);
                }
            }
        }
        Ok(older)
    }
}
