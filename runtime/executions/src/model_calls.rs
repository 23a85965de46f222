//! Exchanges with model providers, and responses that are kept until their execution has ended.

use std::collections::HashSet;

use perpend_db::{Arg, Tx, despite_collisions, in_transaction, query};
use perpend_domain::ids::{ExecutionId, ProjectId};
use perpend_domain::model_call::ModelCall;
use perpend_domain::time::Timestamp;

use super::Ledger;
use super::costs::settle;
use super::exchanges::{AttemptKey, CallKey, KeptResponse, NewExchange};
use super::outcome::ExecutionEnd;
use super::row::id_bytes;
use crate::Error;

const KEPT: &str = "
    SELECT method, body, from_cache FROM kept_answers
     WHERE execution_id = $1 AND call = $2 AND request = $3 ORDER BY number";
const KEEP: &str = "
    INSERT INTO kept_answers (execution_id, call, request, number, project_id, method, body, from_cache, kept_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (execution_id, call, request, number) DO NOTHING";
const FORGET_CALL: &str =
    "DELETE FROM kept_answers WHERE execution_id = $1 AND call = $2 AND request = $3";
const NOTE: &str = "
    INSERT INTO model_calls (project_id, execution_id, evaluator_id, attempt, provider, model, model_answered, method,
                             started_at, latency_ms, input_tokens, cached_tokens, output_tokens, reasoning_tokens,
                             estimated, cost, from_cache, saved, error_class, error_message)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
const CALLS: &str = "
    SELECT attempt, provider, model, model_answered, method, started_at, latency_ms, input_tokens, cached_tokens,
           output_tokens, reasoning_tokens, estimated, cost, from_cache, saved, error_class, error_message
      FROM model_calls
     WHERE execution_id = $1 AND project_id = $2
     ORDER BY seq
     LIMIT 1000";

const FORGET: &str = "DELETE FROM kept_answers WHERE execution_id = $1";

/// Of executions that have ended without a lease.
const FORGET_ENDED: &str = "
    DELETE FROM kept_answers
     WHERE project_id = $1 AND EXISTS
           (SELECT 1 FROM executions e
             WHERE e.project_id = kept_answers.project_id AND e.id = kept_answers.execution_id AND e.state > 3)";

/// Deletes the kept responses of a project whose executions were cancelled or given up in this transaction.
pub(super) async fn delete_ended_responses(tx: &mut Tx, project: &ProjectId) -> Result<(), Error> {
    tx.execute(FORGET_ENDED, &[project.as_str().into()]).await?;
    Ok(())
}

/// Deletes the kept responses of executions that have ended for good, inside the transaction that ends them.
pub(super) async fn delete_responses(
    tx: &mut Tx,
    finished: &[ExecutionEnd<'_>],
    mine: &HashSet<i64>,
) -> Result<(), Error> {
    for each in finished.iter().filter(|each| each.may_have_responses()) {
        if mine.contains(&each.execution.seq)
            && let Some(id) = id_bytes(&each.execution.made.id)
        {
            tx.execute(FORGET, &[id.as_slice().into()]).await?;
        }
    }
    Ok(())
}

perpend_db::record! {
    struct CallRow {
        attempt: i32,
        provider: String,
        model: String,
        model_answered: Option<String>,
        method: String,
        started_at: i64,
        latency_ms: i64,
        input_tokens: i64,
        cached_tokens: i64,
        output_tokens: i64,
        reasoning_tokens: i64,
        estimated: i16,
        cost: Option<f64>,
        from_cache: i16,
        saved: Option<f64>,
        error_class: Option<String>,
        error_message: Option<String>,
    }
}

fn count(n: i64) -> u64 {
    n.max(0).cast_unsigned()
}

fn stored(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl From<CallRow> for (u32, ModelCall) {
    fn from(row: CallRow) -> Self {
        let call = ModelCall {
            provider: row.provider,
            model: row.model,
            model_answered: row.model_answered,
            method: row.method,
            started_at: Timestamp::from_micros(row.started_at),
            latency_ms: count(row.latency_ms),
            input_tokens: count(row.input_tokens),
            cached_tokens: count(row.cached_tokens),
            output_tokens: count(row.output_tokens),
            reasoning_tokens: count(row.reasoning_tokens),
            is_estimated: row.estimated != 0,
            cost: row.cost,
            is_from_cache: row.from_cache != 0,
            saved: row.saved,
            error: row.error_class.zip(row.error_message),
        };
        (row.attempt.max(0).cast_unsigned(), call)
    }
}

async fn note(
    tx: &mut Tx,
    id: &[u8; 16],
    attempt_key: &AttemptKey,
    call: &ModelCall,
) -> Result<(), Error> {
    let (class, message) = call.error.clone().unzip();
    query(NOTE)
        .bind(attempt_key.project.as_str())
        .bind(id.as_slice())
        .bind(attempt_key.evaluator.as_str())
        .bind(i64::from(attempt_key.attempt))
        .bind(&call.provider)
        .bind(&call.model)
        .bind(&call.model_answered)
        .bind(&call.method)
        .bind(call.started_at.as_micros())
        .bind(stored(call.latency_ms))
        .bind(stored(call.input_tokens))
        .bind(stored(call.cached_tokens))
        .bind(stored(call.output_tokens))
        .bind(stored(call.reasoning_tokens))
        .bind(call.is_estimated)
        .bind(call.cost)
        .bind(call.is_from_cache)
        .bind(call.saved)
        .bind(class)
        .bind(message)
        .execute(tx)
        .await?;
    Ok(())
}

const N_CALLS: &str = "
    SELECT COUNT(*) FROM model_calls WHERE execution_id = $1 AND project_id = $2 AND attempt = $3";

const HOLDS: &str = "
    SELECT COUNT(*) FROM executions
     WHERE id = $1 AND project_id = $2 AND state = 1 AND fence = $3 AND $4 < due_at";

impl Ledger {
    /// Whether the execution is still under the lease of this attempt.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn holds(&self, attempt_key: &AttemptKey, now: Timestamp) -> Result<bool, Error> {
        let Some(id) = id_bytes(&attempt_key.execution) else {
            return Ok(false);
        };
        let args: [Arg<'_>; 4] = [
            id.as_slice().into(),
            attempt_key.project.as_str().into(),
            attempt_key.fence.into(),
            now.as_micros().into(),
        ];
        let rows: Vec<(i64,)> = self.pool.select(HOLDS, &args).await?;
        Ok(rows.first().is_some_and(|(n,)| 0 < *n))
    }

    /// Number of recorded exchanges of an attempt.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn n_exchanges(&self, attempt_key: &AttemptKey) -> Result<u32, Error> {
        let Some(id) = id_bytes(&attempt_key.execution) else {
            return Ok(0);
        };
        let args: [Arg<'_>; 3] = [
            id.as_slice().into(),
            attempt_key.project.as_str().into(),
            i64::from(attempt_key.attempt).into(),
        ];
        let rows: Vec<(i64,)> = self.pool.select(N_CALLS, &args).await?;
        let n = rows.first().map_or(0, |(n,)| *n);
        Ok(u32::try_from(n).unwrap_or(u32::MAX))
    }

    /// The responses that an earlier attempt of this execution received in the same call, in order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn kept_responses(
        &self,
        execution: &ExecutionId,
        key: &CallKey,
    ) -> Result<Vec<KeptResponse>, Error> {
        let Some(id) = id_bytes(execution) else {
            return Ok(Vec::new());
        };
        let args: [Arg<'_>; 3] = [
            id.as_slice().into(),
            i64::from(key.call).into(),
            key.request.as_bytes().as_slice().into(),
        ];
        let rows: Vec<(String, String, i16)> = self.pool.select(KEPT, &args).await?;
        let answer = |(method, body, from_cache)| KeptResponse {
            method,
            body,
            is_from_cache: from_cache != 0,
        };
        Ok(rows.into_iter().map(answer).collect())
    }

    /// Deletes the responses of one call without a usable result, so that the next attempt calls the model
    /// again.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_call_responses(
        &self,
        execution: &ExecutionId,
        key: &CallKey,
    ) -> Result<(), Error> {
        let Some(id) = id_bytes(execution) else {
            return Ok(());
        };
        in_transaction!(&self.pool, |tx| {
            query(FORGET_CALL)
                .bind(id.as_slice())
                .bind(i64::from(key.call))
                .bind(key.request.as_bytes().as_slice())
                .execute(&mut tx)
                .await?;
        });
        Ok(())
    }

    /// Writes one exchange of an attempt, and its response if it is usable, in one transaction, so that a
    /// used response is counted in the costs and kept. Returns the reservation of the exchange.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn record_exchange(
        &self,
        attempt_key: &AttemptKey,
        exchange: &NewExchange<'_>,
        now: Timestamp,
    ) -> Result<(), Error> {
        despite_collisions!(self.record_exchange_once(attempt_key, exchange, now).await)
    }

    async fn record_exchange_once(
        &self,
        attempt_key: &AttemptKey,
        exchange: &NewExchange<'_>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let Some(id) = id_bytes(&attempt_key.execution) else {
            return Ok(());
        };
        in_transaction!(&self.pool, |tx| {
            note(&mut tx, &id, attempt_key, exchange.call).await?;
            settle(&mut tx, attempt_key, exchange.call, exchange.reservation).await?;
            if let Some((number, kept)) = exchange.answer {
                query(KEEP)
                    .bind(id.as_slice())
                    .bind(i64::from(exchange.key.call))
                    .bind(exchange.key.request.as_bytes().as_slice())
                    .bind(i64::from(number))
                    .bind(attempt_key.project.as_str())
                    .bind(&kept.method)
                    .bind(&kept.body)
                    .bind(kept.is_from_cache)
                    .bind(now.as_micros())
                    .execute(&mut tx)
                    .await?;
            }
            tx.reach("asking: kept")?;
        });
        Ok(())
    }

    /// Exchanges of an execution with providers, in order, each with the number of its attempt from 0. At
    /// most 1,000.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn model_calls(
        &self,
        project: &ProjectId,
        execution: &ExecutionId,
    ) -> Result<Vec<(u32, ModelCall)>, Error> {
        let Some(id) = id_bytes(execution) else {
            return Ok(Vec::new());
        };
        let args: [Arg<'_>; 2] = [id.as_slice().into(), project.as_str().into()];
        let rows: Vec<CallRow> = self.pool.select(CALLS, &args).await?;
        Ok(rows.into_iter().map(Into::into).collect())
    }
}
