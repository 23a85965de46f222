//! Costs and failures of model calls by connection.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use super::costs::DAY_MICROS;
use crate::{Error, Ledger};

const BY_MODEL: &str = "
    SELECT provider, model, CAST(SUM(n_calls) AS BIGINT) AS n_calls, CAST(SUM(n_failed) AS BIGINT) AS n_failed,
           CAST(SUM(n_unpriced) AS BIGINT) AS n_unpriced, CAST(SUM(n_cached) AS BIGINT) AS n_cached,
           CAST(SUM(input_tokens) AS BIGINT) AS input_tokens, CAST(SUM(output_tokens) AS BIGINT) AS output_tokens,
           CAST(SUM(cost) AS DOUBLE PRECISION) AS cost
      FROM model_costs
     WHERE project_id = $1 AND $2 <= day
     GROUP BY provider, model
     ORDER BY provider, model";
/// Failed calls among the newest `$3`.
const FAILED: &str = "
    SELECT provider, model, started_at, error_class, error_message
      FROM (SELECT provider, model, started_at, error_class, error_message, seq
              FROM model_calls
             WHERE project_id = $1 AND $2 <= started_at
             ORDER BY started_at DESC
             LIMIT $3) newest
     WHERE error_class IS NOT NULL
     ORDER BY started_at DESC, seq DESC";

perpend_db::record! {
    struct ModelCostRow {
        provider: String,
        model: String,
        n_calls: i64,
        n_failed: i64,
        n_unpriced: i64,
        n_cached: i64,
        input_tokens: i64,
        output_tokens: i64,
        cost: f64,
    }
}

perpend_db::record! {
    struct FailedCallRow {
        provider: String,
        model: String,
        started_at: i64,
        error_class: String,
        error_message: Option<String>,
    }
}

/// Costs of the calls of one model over one connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCost {
    /// The name of the connection.
    pub provider: String,
    /// The requested model.
    pub model: String,
    /// Requests, including failed ones.
    pub n_calls: u64,
    /// Requests without a usable response.
    pub n_failed: u64,
    /// Answered requests without a known price.
    pub n_unpriced: u64,
    /// Requests answered by stored replies, which the other counts do not include.
    pub n_cached: u64,
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the replies.
    pub output_tokens: u64,
    /// US dollars, without the calls whose price is unknown.
    pub cost: f64,
}

/// A failed call of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedCall {
    /// The name of the connection.
    pub provider: String,
    /// The requested model.
    pub model: String,
    /// When the request was sent.
    pub at: Timestamp,
    /// Failure class, such as `rate_limited`.
    pub class: String,
    /// Human-readable.
    pub message: String,
}

impl Ledger {
    /// Costs of model calls since the UTC day of a time, by connection and model.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn costs_by_model(
        &self,
        project: &ProjectId,
        since: Timestamp,
    ) -> Result<Vec<ModelCost>, Error> {
        let day = since.as_micros().div_euclid(DAY_MICROS) * DAY_MICROS;
        let args = [project.as_str().into(), day.into()];
        let rows: Vec<ModelCostRow> = self.pool.select(BY_MODEL, &args).await?;
        let cost = |row: ModelCostRow| ModelCost {
            provider: row.provider,
            model: row.model,
            n_calls: row.n_calls.unsigned_abs(),
            n_failed: row.n_failed.unsigned_abs(),
            n_unpriced: row.n_unpriced.unsigned_abs(),
            n_cached: row.n_cached.unsigned_abs(),
            input_tokens: row.input_tokens.unsigned_abs(),
            output_tokens: row.output_tokens.unsigned_abs(),
            cost: row.cost,
        };
        Ok(rows.into_iter().map(cost).collect())
    }

    /// The failed calls among the newest `limit` calls of executions since a time, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn failed_calls(
        &self,
        project: &ProjectId,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<FailedCall>, Error> {
        let args = [project.as_str().into(), since.as_micros().into(), i64::from(limit).into()];
        let rows: Vec<FailedCallRow> = self.pool.select(FAILED, &args).await?;
        let call = |row: FailedCallRow| FailedCall {
            provider: row.provider,
            model: row.model,
            at: Timestamp::from_micros(row.started_at),
            class: row.error_class,
            message: row.error_message.unwrap_or_default(),
        };
        Ok(rows.into_iter().map(call).collect())
    }
}
