//! Writes prepared batches inside a transaction.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use perpend_domain::batch::{Media, SpanLog};
use perpend_domain::fold::version_rank;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::join::join_logs;
use perpend_domain::observation::{Content, Observation};
use perpend_domain::time::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::cmp::Ordering;

use super::change_log::{note_scored, note_written};
use super::prepare::{PreparedBatch, PreparedRow, PreparedTrace, content_text};
use super::read::observation_row;
use super::row::{self, ObservationRow, RowLocation};
use super::transaction_state::{TraceChange, TransactionState};
use super::{Tenant, block};
use crate::Error;
use perpend_db::NumberedTable;
use perpend_db::{Arg, ColumnType, Sized, Tx, value_list, value_rows};

/// Two nodes may write a span and its log records at the same time, and neither would see the rows of the
/// other. Writers of log records wait for those of spans of the tenant, and vice versa; writers of spans do
/// not wait for each other. SQLite has one writer at a time.
const LOCK_SPANS_POSTGRES: &str = "SELECT COUNT(pg_advisory_xact_lock_shared($1))";
const LOCK_LOGS_POSTGRES: &str = "SELECT COUNT(pg_advisory_xact_lock($1))";
/// Base of the advisory locks, so that they do not collide with others of this database.
const FIRST_LOCK: i64 = 4_707_216 << 32;
/// How long log records without a span are kept.
const LOGS_WAIT_MS: i64 = 3_600_000;
static INSERT_OBSERVATIONS: Sized = Sized::repeatable(|n| {
    format!(
        "INSERT /*or fail*/ INTO observations ({}) VALUES {} ON CONFLICT (trace, id) DO NOTHING",
        row::COLUMNS,
        value_rows(n, row::N_COLUMNS, 1)
    )
});
static INSERT_PAYLOADS: Sized = Sized::repeatable(|n| {
    format!(
        "INSERT /*or fail*/ INTO payloads (seq, body) VALUES {} ON CONFLICT (seq) DO NOTHING",
        value_rows(n, 2, 1)
    )
});
const STANDING: &str = "SELECT seq FROM observations WHERE seq >= $1 AND seq <= $2";
/// Two nodes that replace the same observation take turns: the second one must see the version of the first,
/// or the better version would be lost. SQLite has one writer at a time.
pub(super) const LOCK_TRACE_POSTGRES: &str =
    "SELECT number FROM traces WHERE tenant = $1 AND trace_id = $2 FOR UPDATE";
const DELETE_ROW: &str = "DELETE FROM observations WHERE seq = $1";
const PAYLOAD: &str = "SELECT body FROM payloads WHERE seq = $1";
const DELETE_UNUSED_PAYLOAD: &str = "
    DELETE FROM payloads WHERE seq = $1
       AND NOT EXISTS (SELECT 1 FROM observations WHERE trace = $2 AND payload = $1)";
const HAS_LOGS: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM span_logs WHERE tenant = $1 LIMIT 1) x";
const INSERT_LOG: &str = "
    INSERT INTO span_logs (tenant, trace_id, observation_id, digest, happened_at, event, attributes,
                           received_at, is_joined)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)
    ON CONFLICT (tenant, trace_id, observation_id, digest) DO NOTHING";
const LOGS_OF_SPAN: &str = "
    SELECT happened_at, event, attributes FROM span_logs
     WHERE tenant = $1 AND trace_id = $2 AND observation_id = $3
     ORDER BY happened_at, seq";
static SPANS_WITH_LOGS: Sized = Sized::new(|n| {
    format!(
        "SELECT DISTINCT trace_id, observation_id FROM span_logs WHERE tenant = $1 \
         AND trace_id IN ({})",
        value_list(n, 2)
    )
});
const LOGS_JOINED: &str = "
    UPDATE span_logs SET is_joined = 1
     WHERE tenant = $1 AND trace_id = $2 AND observation_id = $3 AND is_joined = 0";
const EXPIRE_LOGS: &str = "DELETE FROM span_logs WHERE is_joined = 0 AND received_at < $1";

const INSERT_MEDIA: &str = concat!(
    "
    INSERT INTO media (tenant, id, sha256, content_type, bytes, created_at)
    VALUES ($1, $2, $3, $4, $5, $6) ",
    crate::media::renewed!()
);
const LINK_MEDIA: &str = "
    INSERT INTO media_links (tenant, trace_id, observation_id, field, media_id)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (tenant, trace_id, observation_id, field, media_id) DO NOTHING";

type ObservationKey = (TraceId, ObservationId);

/// Result of writing a batch.
pub(super) struct BatchOutcome {
    /// Observations that are new or have changed.
    pub(super) changed: Vec<ObservationKey>,
    /// Whether each of its observations is new and was written as prepared.
    pub(super) is_all_new: bool,
}

/// The tenant, the time of arrival, and the index of the batch in the transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchArrival<'t> {
    pub(super) tenant: &'t Tenant,
    pub(super) now: Timestamp,
    pub(super) place: usize,
}

/// Takes the locks of a transaction for these tenants, before any other statement; `true` for tenants with
/// log records.
pub(super) async fn lock_tenants(
    tx: &mut Tx,
    writers: impl IntoIterator<Item = (i64, bool)>,
) -> Result<(), Error> {
    if !tx.is_postgres() {
        return Ok(());
    }
    // In the order of their numbers, to avoid deadlocks.
    let mut tenants: BTreeMap<i64, bool> = BTreeMap::new();
    for (tenant, has_logs) in writers {
        *tenants.entry(tenant).or_default() |= has_logs;
    }
    for (tenant, has_logs) in tenants {
        let sql = if has_logs { LOCK_LOGS_POSTGRES } else { LOCK_SPANS_POSTGRES };
        tx.integer(sql, &[(FIRST_LOCK + tenant).into()]).await?;
    }
    Ok(())
}

/// Writes one batch of a transaction. Its traces already have numbers.
pub(super) async fn apply<'b>(
    tx: &mut Tx,
    arrival: BatchArrival<'_>,
    batch: &'b PreparedBatch,
    gathered: &mut TransactionState<'b>,
) -> Result<BatchOutcome, Error> {
    let BatchArrival { tenant, now, .. } = arrival;
    let mut changed: Vec<ObservationKey> = Vec::new();
    let mut is_all_new = insert_rows(tx, arrival, batch, gathered, &mut changed).await?;
    insert_logs(tx, tenant, &batch.logs, now).await?;
    for pair in spans_to_join(tx, tenant, batch, gathered).await? {
        is_all_new = false;
        if join(tx, arrival, &pair, gathered).await? && !changed.contains(&pair) {
            changed.push(pair);
        }
    }
    touch_traces(tx, arrival, batch, gathered, &changed).await?;
    insert_media(tx, tenant, &batch.media, now).await?;
    if !batch.scores.is_empty() {
        crate::scores::put(tx, &tenant.project, &batch.scores, now).await?;
        note_scored(tx, &tenant.project, &batch.scores, now).await?;
    }
    note_written(tx, &tenant.project, &changed, now).await?;
    Ok(BatchOutcome { changed, is_all_new })
}

/// `true` if none of the rows existed.
async fn insert_rows<'b>(
    tx: &mut Tx,
    arrival: BatchArrival<'_>,
    batch: &'b PreparedBatch,
    gathered: &mut TransactionState<'b>,
    changed: &mut Vec<ObservationKey>,
) -> Result<bool, Error> {
    let BatchArrival { tenant, now, .. } = arrival;
    let n_rows = batch.traces.iter().map(|trace| trace.rows.len()).sum();
    let n_blocks = batch.traces.iter().map(|trace| trace.blocks.len()).sum();
    let fresh = &mut gathered.fresh;
    let seqs = fresh.take(tx, NumberedTable::Observations, n_rows).await?;
    let payload_seqs = fresh.take(tx, NumberedTable::Payloads, n_blocks).await?;
    let mut rows: Vec<(RowLocation, &'b PreparedRow)> = Vec::with_capacity(n_rows);
    let mut blocks: Vec<(i64, &[u8])> = Vec::with_capacity(n_blocks);
    for trace in &batch.traces {
        let first_block = blocks.len();
        let Some(number) = gathered.number_of(tenant.number, &trace.id) else {
            continue;
        };
        for body in &trace.blocks {
            blocks.push((payload_seqs[blocks.len()], body));
        }
        for row in &trace.rows {
            let place = RowLocation {
                seq: seqs[rows.len()],
                tenant: tenant.number,
                trace: number.number,
                payload: row.block.map(|at| payload_seqs[first_block + at]),
                place: row.place,
                created_at: now,
                updated_at: now,
            };
            rows.push((place, row));
        }
    }
    let n_inserted = insert_chunks(tx, &rows).await?;
    if n_inserted as usize == rows.len() {
        changed.extend(rows.iter().map(|(_, row)| pair(&row.observation)));
        insert_blocks(tx, &blocks).await?;
        gathered.rollups.add_all(tenant.number, &batch.sums);
        return Ok(true);
    }
    let existing = tx.numbers_among(STANDING, &seqs).await?;
    let mut used = HashSet::new();
    let mut known = Vec::new();
    for (place, row) in &rows {
        if existing.contains(&place.seq) {
            used.extend(place.payload);
            changed.push(pair(&row.observation));
            gathered.rollups.add(tenant.number, &row.observation);
        } else {
            known.push((place.trace, *row));
        }
    }
    // Before the updates, which allocate numbers for their own blocks.
    blocks.retain(|(seq, _)| used.contains(seq));
    insert_blocks(tx, &blocks).await?;
    for (trace, row) in known {
        if update(tx, arrival, trace, row, gathered).await? {
            changed.push(pair(&row.observation));
        }
    }
    Ok(false)
}

fn pair(observation: &Observation) -> ObservationKey {
    (observation.trace_id.clone(), observation.id.clone())
}

async fn insert_chunks(tx: &mut Tx, rows: &[(RowLocation, &PreparedRow)]) -> Result<u64, Error> {
    tx.execute_for(&INSERT_OBSERVATIONS, rows, |args, (place, row)| {
        row::push_args(args, *place, &row.observation, &row.detail);
    })
    .await
}

async fn insert_blocks(tx: &mut Tx, blocks: &[(i64, &[u8])]) -> Result<(), Error> {
    tx.execute_for(&INSERT_PAYLOADS, blocks, |args, (seq, body)| {
        args.extend([Arg::from(*seq), Arg::from(*body)]);
    })
    .await?;
    Ok(())
}

/// A stored observation with the text of its content.
pub(super) struct ExistingObservation {
    row: ObservationRow,
    /// Without content.
    pub(super) observation: Observation,
    /// Empty if the observation has none.
    pub(super) content: String,
}

/// A stored observation to be replaced. No other transaction replaces it until this one ends.
pub(super) async fn load(
    tx: &mut Tx,
    tenant: &Tenant,
    trace: &TraceId,
    id: &ObservationId,
) -> Result<Option<ExistingObservation>, Error> {
    if tx.is_postgres() {
        let args = [tenant.number.into(), trace.as_str().into()];
        tx.integer(LOCK_TRACE_POSTGRES, &args).await?;
    }
    let Some(row) = observation_row(tx, tenant.number, trace, id).await? else {
        return Ok(None);
    };
    let content = match row.payload {
        None => String::new(),
        Some(seq) => {
            let found = tx.rows(PAYLOAD, &[seq.into()], &[ColumnType::Blob]).await?;
            let body = found.first().ok_or_else(|| Error::Inconsistent {
                what: "observation",
                detail: format!("its content {seq} is missing"),
            })?;
            block::unpack(body[0].blob()?)?.text(row.place)?.to_owned()
        }
    };
    Ok(Some(ExistingObservation { observation: row.observation()?, row, content }))
}

/// Another version of an existing observation; `true` if it replaced the stored version.
async fn update(
    tx: &mut Tx,
    arrival: BatchArrival<'_>,
    trace: i64,
    arrived: &PreparedRow,
    gathered: &mut TransactionState<'_>,
) -> Result<bool, Error> {
    let tenant = arrival.tenant;
    let (trace_id, id) = pair(&arrived.observation);
    let Some(stored) = load(tx, tenant, &trace_id, &id).await? else {
        return Err(Error::Unavailable("an observation is being deleted".to_owned()));
    };
    debug_assert_eq!(stored.row.trace, trace, "a pair belongs to one trace");
    let logs = logs_of(tx, tenant, &trace_id, &id).await?;
    let mut version = arrived.observation.clone();
    let mut content = arrived.content.clone();
    if !logs.is_empty() {
        content = joined(&mut version, &content, &logs)?;
    }
    let detail = row::detail(&version)?;
    let differs = || {
        detail != stored.row.detail
            || content != stored.content
            || !same_columns(&version, &stored.observation)
    };
    let is_better = match version_rank(&version).cmp(&version_rank(&stored.observation)) {
        _ if arrived.is_whole => differs(),
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal => differs(),
    };
    if is_better {
        rewrite(tx, arrival, &stored, (&version, &content), gathered).await?;
    }
    Ok(is_better)
}

/// Whether two versions agree in all columns except the detail text.
fn same_columns(a: &Observation, b: &Observation) -> bool {
    (&a.parent_id, a.kind, &a.name, a.start, a.end)
        == (&b.parent_id, b.kind, &b.name, b.start, b.end)
        && (a.completion_start, a.level, &a.status_message, &a.environment)
            == (b.completion_start, b.level, &b.status_message, &b.environment)
        && (&a.release, &a.version, &a.user_id, &a.session_id, &a.model, &a.prompt)
            == (&b.release, &b.version, &b.user_id, &b.session_id, &b.model, &b.prompt)
}

/// Adds log records to an observation whose content is `content`; returns the new content.
fn joined(observation: &mut Observation, content: &str, logs: &[SpanLog]) -> Result<String, Error> {
    if !content.is_empty() {
        observation.content = block::from_json(content)?;
    }
    join_logs(observation, logs);
    let text = content_text(&observation.content)?;
    observation.content = Content::default();
    Ok(text)
}

/// Replaces the stored version by another one with the text of its content.
async fn rewrite(
    tx: &mut Tx,
    BatchArrival { tenant, now, .. }: BatchArrival<'_>,
    stored: &ExistingObservation,
    (version, content): (&Observation, &str),
    gathered: &mut TransactionState<'_>,
) -> Result<(), Error> {
    let mut place = RowLocation {
        seq: stored.row.seq,
        tenant: tenant.number,
        trace: stored.row.trace,
        payload: stored.row.payload,
        place: stored.row.place,
        created_at: Timestamp::from_micros(stored.row.created_at),
        updated_at: now,
    };
    let is_moved = content != stored.content;
    if is_moved {
        place.place = 0;
        place.payload = None;
        if !content.is_empty() {
            let fresh = gathered.fresh.take(tx, NumberedTable::Payloads, 1).await?;
            let body = block::pack(&[content])?;
            for seq in fresh {
                insert_blocks(tx, &[(seq, &body)]).await?;
                place.payload = Some(seq);
            }
        }
    }
    tx.execute(DELETE_ROW, &[place.seq.into()]).await?;
    let rollups = &mut gathered.rollups;
    rollups.subtract(tenant.number, &stored.observation);
    rollups.add_other(tenant.number, version);
    let row = PreparedRow {
        detail: row::detail(version)?,
        observation: version.clone(),
        content: String::new(),
        block: None,
        place: 0,
        is_whole: false,
    };
    insert_chunks(tx, &[(place, &row)]).await?;
    if let (true, Some(old)) = (is_moved, stored.row.payload) {
        let args = [old.into(), place.trace.into()];
        tx.execute(DELETE_UNUSED_PAYLOAD, &args).await?;
    }
    Ok(())
}

async fn insert_logs(
    tx: &mut Tx,
    tenant: &Tenant,
    logs: &[SpanLog],
    now: Timestamp,
) -> Result<(), Error> {
    if logs.is_empty() {
        return Ok(());
    }
    let expired = now.plus_millis(-LOGS_WAIT_MS).as_micros();
    tx.execute(EXPIRE_LOGS, &[expired.into()]).await?;
    for log in logs {
        let attributes = Value::Object(log.attributes.clone()).to_string();
        let mut hash = Sha256::new();
        hash.update(log.time.as_micros().to_be_bytes());
        hash.update((log.event.len() as u64).to_be_bytes());
        hash.update(&log.event);
        hash.update(&attributes);
        let digest = hash.finalize();
        let args = [
            tenant.number.into(),
            log.trace_id.as_str().into(),
            log.observation_id.as_str().into(),
            digest[..16].into(),
            log.time.as_micros().into(),
            log.event.as_str().into(),
            attributes.as_str().into(),
            now.as_micros().into(),
        ];
        tx.execute(INSERT_LOG, &args).await?;
    }
    Ok(())
}

async fn logs_of(
    tx: &mut Tx,
    tenant: &Tenant,
    trace: &TraceId,
    id: &ObservationId,
) -> Result<Vec<SpanLog>, Error> {
    let args = [tenant.number.into(), trace.as_str().into(), id.as_str().into()];
    let rows = tx
        .rows(LOGS_OF_SPAN, &args, &[ColumnType::Int, ColumnType::Text, ColumnType::Text])
        .await?;
    rows.iter()
        .map(|cells| {
            Ok(SpanLog {
                trace_id: trace.clone(),
                observation_id: id.clone(),
                time: Timestamp::from_micros(cells[0].int()?),
                event: cells[1].text()?.to_owned(),
                attributes: perpend_db::from_json("span log", cells[2].text()?)?,
            })
        })
        .collect()
}

/// Spans with log records, of this batch or of its log records.
async fn spans_to_join(
    tx: &mut Tx,
    tenant: &Tenant,
    batch: &PreparedBatch,
    gathered: &mut TransactionState<'_>,
) -> Result<BTreeSet<ObservationKey>, Error> {
    let mut pairs: BTreeSet<ObservationKey> =
        batch.logs.iter().map(|log| (log.trace_id.clone(), log.observation_id.clone())).collect();
    if !batch.logs.is_empty() {
        // Also for the following batches of this transaction.
        gathered.has_logs.insert(tenant.number, true);
    }
    if batch.traces.is_empty() {
        return Ok(pairs);
    }
    let has_logs = match gathered.has_logs.get(&tenant.number) {
        Some(has_logs) => *has_logs,
        None => tx.integer(HAS_LOGS, &[tenant.number.into()]).await? > 0,
    };
    gathered.has_logs.insert(tenant.number, has_logs);
    if !has_logs {
        return Ok(pairs);
    }
    let arrived: HashSet<(&str, &str)> = batch
        .traces
        .iter()
        .flat_map(|trace| &trace.rows)
        .map(|row| (row.observation.trace_id.as_str(), row.observation.id.as_str()))
        .collect();
    let ids: Vec<&str> = batch.traces.iter().map(|trace| trace.id.as_str()).collect();
    let mut rest = ids.as_slice();
    while !rest.is_empty() {
        let (sql, n) = SPANS_WITH_LOGS.for_up_to(rest.len());
        let (chunk, later) = rest.split_at(n);
        let mut args: Vec<Arg<'_>> = vec![tenant.number.into()];
        args.extend(chunk.iter().map(|id| Arg::from(*id)));
        for cells in tx.rows(sql, &args, &[ColumnType::Text, ColumnType::Text]).await? {
            let (trace, id) = (cells[0].text()?, cells[1].text()?);
            if arrived.contains(&(trace, id))
                && let (Ok(trace), Ok(id)) = (TraceId::new(trace), ObservationId::new(id))
            {
                pairs.insert((trace, id));
            }
        }
        rest = later;
    }
    Ok(pairs)
}

/// Adds all log records of a span to it; `true` if that changed the span.
async fn join(
    tx: &mut Tx,
    arrival: BatchArrival<'_>,
    (trace, id): &ObservationKey,
    gathered: &mut TransactionState<'_>,
) -> Result<bool, Error> {
    let tenant = arrival.tenant;
    let Some(stored) = load(tx, tenant, trace, id).await? else {
        return Ok(false);
    };
    let logs = logs_of(tx, tenant, trace, id).await?;
    let mut version = stored.observation.clone();
    let content = joined(&mut version, &stored.content, &logs)?;
    let args = [tenant.number.into(), trace.as_str().into(), id.as_str().into()];
    tx.execute(LOGS_JOINED, &args).await?;
    let is_changed =
        content != stored.content || version.has_content != stored.observation.has_content;
    if is_changed {
        rewrite(tx, arrival, &stored, (&version, &content), gathered).await?;
    }
    Ok(is_changed)
}

/// Marks existing traces that have changed as stale.
async fn touch_traces(
    tx: &mut Tx,
    BatchArrival { tenant, now, place }: BatchArrival<'_>,
    batch: &PreparedBatch,
    gathered: &mut TransactionState<'_>,
    changed: &[ObservationKey],
) -> Result<(), Error> {
    let traces: BTreeSet<&TraceId> = changed.iter().map(|(trace, _)| trace).collect();
    let arrived: HashMap<&TraceId, &PreparedTrace> =
        batch.traces.iter().map(|trace| (&trace.id, trace)).collect();
    for id in traces {
        let number = match gathered.number_of(tenant.number, id) {
            Some(found) if found.made_by == Some(place) && batch.logs.is_empty() => continue,
            Some(found) => found.number,
            // Only log records arrived for it.
            None => TransactionState::look_up(tx, tenant.number, id).await?,
        };
        let part = arrived.get(id);
        let touch = TraceChange {
            number,
            at: now,
            root_ended: part.is_some_and(|part| part.has_ended_root),
            has_marker: part.is_some_and(|part| part.has_marker),
            n_open: part.map_or(0, |part| part.n_open),
        };
        gathered.touch(tenant.number, id.clone(), touch);
    }
    Ok(())
}

async fn insert_media(
    tx: &mut Tx,
    tenant: &Tenant,
    media: &[Media],
    now: Timestamp,
) -> Result<(), Error> {
    for medium in media {
        let args = [
            tenant.number.into(),
            medium.id.as_str().into(),
            medium.sha256.as_slice().into(),
            medium.content_type.as_str().into(),
            medium.bytes.as_slice().into(),
            now.as_micros().into(),
        ];
        tx.execute(INSERT_MEDIA, &args).await?;
        let args = [
            tenant.number.into(),
            medium.trace_id.as_str().into(),
            medium.observation_id.as_str().into(),
            medium.field.into(),
            medium.id.as_str().into(),
        ];
        tx.execute(LINK_MEDIA, &args).await?;
    }
    Ok(())
}
