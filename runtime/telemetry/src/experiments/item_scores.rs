//! The scores of the items of a run.
//!
//! A run of thousands of items has several scores for each, and most of the time goes into the columns of
//! their rows. The columns that the scores of an evaluator share are therefore read as one text, which is
//! parsed once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use perpend_domain::evaluation::Fingerprint;
use perpend_domain::experiment::{ItemResult, ItemScore};
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, ProjectId, RuleId};
use perpend_domain::score::ScoreOrigin;

use super::spans::about;
use crate::scores::score_value;
use crate::{Error, Telemetry};
use perpend_db::{Record as _, Row, charge, checked, query};

/// Separates the parts of the column `shared`. No part but the last one can contain it.
const SEPARATOR: char = '\u{1f}';

perpend_db::record! {
    struct ItemScoreRow {
        trace_id: String,
        observation_id: Option<String>,
        name: String,
        number: Option<f64>,
        text: Option<String>,
        comment: Option<String>,
        execution_id: Option<String>,
        shared: String,
    }
}

/// The columns of type and origin as one text.
fn shared_column(is_postgres: bool) -> String {
    let (separator, fingerprint, probability) = match is_postgres {
        true => {
            ("chr(31)", "encode(s.fingerprint, 'hex')", "CAST(s.inclusion_probability AS TEXT)")
        }
        // The exclamation mark allows more than 16 digits.
        false => (
            "char(31)",
            "lower(hex(s.fingerprint))",
            "printf('%!.17g', COALESCE(s.inclusion_probability, 0))",
        ),
    };
    let optional = [
        "s.evaluator_id",
        "s.evaluator_version_id",
        "s.rule_id",
        fingerprint,
        probability,
        "s.given_name",
    ]
    .map(|column| format!(" || {separator} || COALESCE({column}, '')"));
    format!("s.data_type{}", optional.concat())
}

/// The parts of a score that others of its evaluator share.
struct SharedParts {
    data_type: String,
    /// Absent for scores of clients and people.
    origin: Option<SharedOrigin>,
}

struct SharedOrigin {
    evaluator_id: EvaluatorId,
    evaluator_version_id: EvaluatorVersionId,
    rule_id: RuleId,
    fingerprint: Fingerprint,
    inclusion_probability: f64,
    /// The name in the plug-in's result; the stored name if absent.
    score_name: Option<String>,
}

impl SharedParts {
    fn parse(raw: &str, has_origin: bool) -> Result<Self, Error> {
        let mut parts = raw.splitn(7, SEPARATOR);
        let mut next = || parts.next().unwrap_or_default();
        let data_type = next().to_owned();
        if !has_origin {
            return Ok(Self { data_type, origin: None });
        }
        let origin = SharedOrigin {
            evaluator_id: checked("score", next())?,
            evaluator_version_id: checked("score", next())?,
            rule_id: checked("score", next())?,
            fingerprint: checked("score", next())?,
            inclusion_probability: checked("score", next())?,
            score_name: Some(next().to_owned()).filter(|name| !name.is_empty()),
        };
        Ok(Self { data_type, origin: Some(origin) })
    }
}

/// The scores of the traces of a run, in the order in which they were made.
#[derive(Default)]
pub(super) struct ItemScores {
    by_trace: HashMap<String, Vec<(Option<String>, ItemScore)>>,
    shared: HashMap<(String, bool), SharedParts>,
}

impl ItemScores {
    fn add(&mut self, row: ItemScoreRow) -> Result<(), Error> {
        let ItemScoreRow { trace_id, name, text, comment, .. } = row;
        let parts = match self.shared.entry((row.shared, row.execution_id.is_some())) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let (raw, has_origin) = new.key();
                let parts = SharedParts::parse(raw, *has_origin)?;
                new.insert(parts)
            }
        };
        let origin = match (&parts.origin, &row.execution_id) {
            (Some(shared), Some(execution)) => Some(ScoreOrigin {
                execution_id: checked("score", execution)?,
                evaluator_id: shared.evaluator_id.clone(),
                evaluator_version_id: shared.evaluator_version_id.clone(),
                rule_id: shared.rule_id.clone(),
                fingerprint: shared.fingerprint,
                inclusion_probability: shared.inclusion_probability,
                score_name: shared.score_name.clone().unwrap_or_else(|| name.clone()),
            }),
            _ => None,
        };
        let n_texts = name.len()
            + text.as_ref().map_or(0, String::len)
            + comment.as_ref().map_or(0, String::len);
        charge(size_of::<ItemScore>() + n_texts)?;
        let value = score_value(row.number, text, &parts.data_type)?;
        let of_trace = self.by_trace.entry(trace_id).or_default();
        of_trace.push((row.observation_id, ItemScore { name, value, comment, origin }));
        Ok(())
    }

    /// The scores of the trace as a whole and of the observation of the result, or else of `root`. They are
    /// moved unless other results share the trace.
    pub(super) fn take(
        &mut self,
        result: &ItemResult,
        root: Option<&str>,
        is_shared: bool,
    ) -> Vec<ItemScore> {
        let own = result.observation_id.as_ref().map(|id| id.as_str()).or(root);
        let is_own = |observation: Option<&str>| observation.is_none() || observation == own;
        let trace = result.trace_id.as_str();
        if is_shared {
            let of_trace = self.by_trace.get(trace).into_iter().flatten();
            let scores = of_trace.filter(|(observation, _)| is_own(observation.as_deref()));
            return scores.map(|(_, score)| score.clone()).collect();
        }
        let of_trace = self.by_trace.remove(trace).into_iter().flatten();
        let scores = of_trace.filter(|(observation, _)| is_own(observation.as_deref()));
        scores.map(|(_, score)| score).collect()
    }
}

impl Telemetry {
    /// The scores of all traces of a run, except corrections.
    pub(super) async fn item_scores(
        &self,
        project: &ProjectId,
        (tenant, run_id): (i64, &str),
    ) -> Result<ItemScores, Error> {
        let is_postgres = self.pool.is_postgres();
        let mut sql = about(project, tenant);
        sql.bind_text(run_id);
        // SQLite finds the scores of a trace in the order in which they were made.
        let order = if is_postgres { "ORDER BY s.timestamp, s.id" } else { "" };
        sql.push(&format!(
            "SELECT s.trace_id, s.observation_id, s.name, s.number, s.text, s.comment, s.execution_id,
                    {} AS shared
               FROM (SELECT l.trace_id FROM dataset_run_items l
                      WHERE l.project_id = $1 AND l.run_id = $3
                      UNION
                     SELECT t.trace_id FROM observations o JOIN traces t ON t.number = o.trace
                      WHERE o.tenant = $2 AND o.experiment_id = $3) r
              CROSS JOIN scores s
              WHERE s.project_id = $1 AND s.trace_id = r.trace_id AND s.data_type <> 'CORRECTION' {order}",
            shared_column(is_postgres)
        ));
        let mut scores = ItemScores::default();
        let put = &mut |row: Row| scores.add(ItemScoreRow::read(&row)?);
        query(sql.text).bind_all(&sql.args).each(&self.pool, put).await?;
        Ok(scores)
    }
}
