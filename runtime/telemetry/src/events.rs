//! Observations that are sent in parts. Every part is kept, and the observation is the result of all parts
//! ([`perpend_domain::patch`]), written in the transaction that takes a new part.
//!
//! An observation that arrived complete, as a span, is the base to which parts are applied. It is kept in
//! addition to them, so that fields that no part sets are not lost.

use perpend_domain::telemetry::EventBatch;
use std::collections::{BTreeMap, BTreeSet};

use perpend_domain::batch::{Batch, Media};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::patch::{Patch, PatchSubject, condense, merge_onto};
use perpend_domain::pricing::PriceTable;
use perpend_domain::score::NewScore;
use perpend_domain::time::Timestamp;
use sha2::{Digest as _, Sha256};

use super::apply::{BatchArrival, LOCK_TRACE_POSTGRES, apply, load, lock_tenants};
use super::prepare::PreparedBatch;
use super::rollup::Changes;
use super::transaction_state::TransactionState;
use super::{Tenant, block};
use crate::{Error, Telemetry};
use perpend_db::{Arg, Cell, ColumnType, Tx, despite_collisions, in_transaction};

/// Parts that are kept of one object. Above this number the oldest are merged into one, so that a sender that
/// repeats itself does not slow down reads.
const MAX_PARTS: usize = 1_000;
/// Bytes of these parts as JSON, with the same effect.
const MAX_PART_BYTES: usize = 4 << 20;
/// Objects that one transaction handles at most. It also ends after the object with which it holds more than
/// `MAX_PART_BYTES` bytes. The rest of a request is handled by further transactions, between which other
/// writers run.
const MAX_THINGS: usize = 100;
const MAX_BYTES: usize = 2 << 20;
/// Scores per transaction.
const MAX_SCORES: usize = 500;

const INSERT: &str = "
    INSERT INTO events (tenant, kind, entity, event_id, body) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (tenant, kind, entity, event_id) DO NOTHING";
const PARTS: &str = "
    SELECT body FROM events WHERE tenant = $1 AND kind = $2 AND entity = $3
     ORDER BY seq";
const DELETE_PART: &str =
    "DELETE FROM events WHERE tenant = $1 AND kind = $2 AND entity = $3 AND event_id = $4";
const BASE: &str =
    "SELECT body FROM events WHERE tenant = $1 AND kind = 2 AND entity = $2 AND event_id = ''";
const SET_BASE: &str = "
    INSERT INTO events (tenant, kind, entity, event_id, body) VALUES ($1, 2, $2, '', $3)
    ON CONFLICT (tenant, kind, entity, event_id) DO UPDATE SET body = excluded.body";
/// Nodes that take parts of the same object take turns, or each would write the result of its own parts. A
/// lock covers all objects of a bucket, so that a transaction has few locks; they end with it. The buckets
/// are a comma-separated list in ascending order.
const LOCK_POSTGRES: &str = "
    SELECT COUNT(pg_advisory_xact_lock($1 + bucket))
      FROM unnest(string_to_array($2, ',')::bigint[]) bucket";
/// Base of the advisory locks, so that they do not collide with others of this database.
const FIRST_LOCK: i64 = 4_707_215 << 32;
const N_BUCKETS: i64 = 256;

const FIND: &str = "
    SELECT o.seq, o.trace, COALESCE(o.payload, 0) FROM traces t JOIN observations o ON o.trace = t.number
     WHERE t.tenant = $1 AND t.trace_id = $2 AND o.id = $3";
const DELETE_ROW: &str = "DELETE FROM observations WHERE seq = $1";
const DELETE_PAYLOAD: &str = "
    DELETE FROM payloads WHERE seq = $1
       AND NOT EXISTS (SELECT 1 FROM observations WHERE trace = $2 AND payload = $1)";
const TOUCH: &str = "UPDATE traces SET revision = revision + 1, stale = 1, last_seen = CASE WHEN $2 > last_seen THEN $2 ELSE last_seen END WHERE number = $1";
const DELETE_EMPTY: &str = "
    DELETE FROM traces WHERE number = $1
       AND NOT EXISTS (SELECT 1 FROM observations WHERE trace = $1)";

fn entity(about: &PatchSubject) -> (i64, &str) {
    match about {
        PatchSubject::Trace(trace) => (0, trace.as_str()),
        PatchSubject::Observation(id) => (1, id.as_str()),
    }
}

/// The stored parts of one object, and the bytes from which they were read.
async fn parts(
    tx: &mut Tx,
    tenant: i64,
    about: &PatchSubject,
) -> Result<(Vec<Patch>, usize), Error> {
    let (kind, entity) = entity(about);
    let args = [tenant.into(), kind.into(), entity.into()];
    let rows = tx.rows(PARTS, &args, &[ColumnType::Blob]).await?;
    let mut n_bytes = 0;
    let mut read = |cells: &Vec<Cell>| {
        let block = block::unpack(cells[0].blob()?)?;
        let text = block.text(0)?;
        n_bytes += text.len();
        block::from_json(text)
    };
    let parts = rows.iter().map(&mut read).collect::<Result<_, _>>()?;
    Ok((parts, n_bytes))
}

/// The observation that arrived complete before its parts.
async fn base(tx: &mut Tx, tenant: i64, id: &ObservationId) -> Result<Option<Observation>, Error> {
    let args = [tenant.into(), id.as_str().into()];
    let rows = tx.rows(BASE, &args, &[ColumnType::Blob]).await?;
    let body = rows.first().map(|cells| cells[0].blob());
    body.map(|body| block::from_json(block::unpack(body?)?.text(0)?)).transpose()
}

/// Whether a stored observation is not the result of the parts: it arrived, or was replaced, as a span.
/// Changes by log records and prices do not count.
fn is_from_span(existing: &Observation, made: Option<&Observation>) -> bool {
    let compared = |o: &Observation| {
        (
            (o.trace_id.clone(), o.scope_name.clone(), o.attribute_count),
            (o.name.clone(), o.kind, o.start, o.end),
            (o.model.clone(), o.usage.clone(), o.cost.clone()),
        )
    };
    made.is_none_or(|made| compared(made) != compared(existing))
}

/// An existing observation that does not come from parts although parts exist for it now.
async fn whole(
    tx: &mut Tx,
    tenant: &Tenant,
    made: Option<&Observation>,
    now_made: &Observation,
) -> Result<Option<Observation>, Error> {
    let Some(existing) = load(tx, tenant, &now_made.trace_id, &now_made.id).await? else {
        return Ok(None);
    };
    if !is_from_span(&existing.observation, made) {
        return Ok(None);
    }
    let mut whole = existing.observation;
    if !existing.content.is_empty() {
        whole.content = block::from_json(&existing.content)?;
    }
    let body = block::pack(&[block::to_json(&whole)?.as_str()])?;
    let args: [Arg<'_>; 3] =
        [tenant.number.into(), whole.id.as_str().into(), body.as_slice().into()];
    tx.execute(SET_BASE, &args).await?;
    Ok(Some(whole))
}

/// Merges the oldest parts into one if there are too many, or all parts if they are too large together.
async fn shorten(
    tx: &mut Tx,
    tenant: i64,
    about: &PatchSubject,
    (all, n_bytes): (&mut Vec<Patch>, usize),
) -> Result<(), Error> {
    let max = if MAX_PART_BYTES < n_bytes { 2 } else { MAX_PARTS };
    let gone = condense(all, max);
    let (Some(first), false) = (all.first(), gone.is_empty()) else {
        return Ok(());
    };
    let (kind, entity) = entity(about);
    for event in &gone {
        let args: [Arg<'_>; 4] = [tenant.into(), kind.into(), entity.into(), event.as_str().into()];
        tx.execute(DELETE_PART, &args).await?;
    }
    let body = block::pack(&[block::to_json(first)?.as_str()])?;
    let args: [Arg<'_>; 5] = [
        tenant.into(),
        kind.into(),
        entity.into(),
        first.event_id.as_str().into(),
        body.as_slice().into(),
    ];
    tx.execute(INSERT, &args).await?;
    Ok(())
}

/// A part, ready to be written.
pub(super) struct PackedPart<'p> {
    patch: &'p Patch,
    body: Vec<u8>,
    /// Size as JSON.
    n_bytes: usize,
}

/// The old and the new version of an object, and the bytes of all its parts.
struct MergedObject {
    before: Option<Observation>,
    after: Option<Observation>,
    n_bytes: usize,
}

/// Adds parts to one object.
async fn add(
    tx: &mut Tx,
    tenant: &Tenant,
    about: &PatchSubject,
    patches: &[PackedPart<'_>],
) -> Result<MergedObject, Error> {
    let (kind, entity) = entity(about);
    let (mut all, mut n_bytes) = parts(tx, tenant.number, about).await?;
    let under = match about {
        PatchSubject::Trace(_) => None,
        PatchSubject::Observation(id) => base(tx, tenant.number, id).await?,
    };
    let before = match all.is_empty() {
        true => None,
        false => merge_onto(under.as_ref(), &all),
    };
    for packed in patches {
        let args: [Arg<'_>; 5] = [
            tenant.number.into(),
            kind.into(),
            entity.into(),
            packed.patch.event_id.as_str().into(),
            packed.body.as_slice().into(),
        ];
        if tx.execute(INSERT, &args).await? == 1 {
            all.push(packed.patch.clone());
            n_bytes += packed.n_bytes;
        }
    }
    shorten(tx, tenant.number, about, (&mut all, n_bytes)).await?;
    let after = merge_onto(under.as_ref(), &all);
    if let (PatchSubject::Observation(_), Some(made)) = (about, &after)
        && let Some(whole) = whole(tx, tenant, before.as_ref(), made).await?
    {
        let after = merge_onto(Some(&whole), &all);
        return Ok(MergedObject { before, after, n_bytes });
    }
    Ok(MergedObject { before, after, n_bytes })
}

/// The parts of one object.
pub(super) type PatchedObject<'p> = (&'p PatchSubject, Vec<PackedPart<'p>>);

/// The bucket of an object, the same on all nodes.
fn bucket(tenant: i64, about: &PatchSubject) -> i64 {
    let (kind, entity) = entity(about);
    let mut hash = Sha256::new();
    hash.update(tenant.to_be_bytes());
    hash.update([kind as u8]);
    hash.update(entity);
    let digest = hash.finalize();
    i64::from(u16::from_be_bytes([digest[0], digest[1]])) % N_BUCKETS
}

/// Locks the objects of the parts, then the traces that they name, each in their order. This avoids
/// deadlocks, and no transaction replaces an observation while parts are applied to it.
pub(super) async fn lock(
    tx: &mut Tx,
    tenant: i64,
    things: &[PatchedObject<'_>],
) -> Result<(), Error> {
    if !tx.is_postgres() {
        return Ok(());
    }
    let buckets = things.iter().map(|(about, _)| bucket(tenant, about));
    let buckets: BTreeSet<i64> = buckets.collect();
    let buckets: Vec<String> = buckets.iter().map(i64::to_string).collect();
    let args: [Arg<'_>; 2] = [FIRST_LOCK.into(), Arg::Text(Some(buckets.join(",").into()))];
    tx.integer(LOCK_POSTGRES, &args).await?;
    let parts = things.iter().flat_map(|(_, parts)| parts);
    let traces: BTreeSet<&TraceId> =
        parts.filter_map(|packed| packed.patch.trace_id.as_ref()).collect();
    for trace in traces {
        let args: [Arg<'_>; 2] = [tenant.into(), trace.as_str().into()];
        tx.execute(LOCK_TRACE_POSTGRES, &args).await?;
    }
    Ok(())
}

impl Telemetry {
    /// Takes create and update events. When this returns `Ok`, all of them survive power loss. The same
    /// events again change nothing, in any order or grouping; of events with equal times the later one wins.
    /// Many events take several transactions.
    ///
    /// # Errors
    /// When the database fails; some of the events may be written then, and the same events again write the
    /// rest.
    pub async fn write_events(
        &self,
        project: &ProjectId,
        mut batch: EventBatch,
        prices: &PriceTable,
        now: Timestamp,
    ) -> Result<(), Error> {
        let tenant = self.make_tenant(project).await?;
        for (place, patch) in (0..).zip(&mut batch.patches) {
            patch.arrival = (now.as_micros(), place);
        }
        let mut by_entity: BTreeMap<&PatchSubject, Vec<PackedPart<'_>>> = BTreeMap::new();
        for patch in &batch.patches {
            let text = block::to_json(patch)?;
            let packed =
                PackedPart { patch, body: block::pack(&[text.as_str()])?, n_bytes: text.len() };
            by_entity.entry(&patch.about).or_default().push(packed);
        }
        let things: Vec<PatchedObject<'_>> = by_entity.into_iter().collect();
        let mut work = PendingEvents {
            tenant,
            things: &things,
            media: batch.media,
            scores: &batch.scores,
            prices,
            now,
        };
        while !work.is_done() {
            let n_things = despite_collisions!(self.write_some(&work).await)?;
            work.things = &work.things[n_things..];
            work.media.clear();
            work.scores = work.scores.get(MAX_SCORES..).unwrap_or_default();
        }
        Ok(())
    }

    /// Handles as much as fits into one transaction: the media, some of the scores, and the returned number
    /// of objects.
    async fn write_some(&self, work: &PendingEvents<'_>) -> Result<usize, Error> {
        let tenant = &work.tenant;
        let things = &work.things[..work.things.len().min(MAX_THINGS)];
        Ok(in_transaction!(&self.pool, |tx| {
            lock_tenants(&mut tx, [(tenant.number, false)]).await?;
            lock(&mut tx, tenant.number, things).await?;
            let mut gathered = TransactionState::default();
            let (n_things, merged) = merged(&mut tx, work, things, &mut gathered.rollups).await?;
            let batch = Batch {
                observations: merged,
                media: work.media.clone(),
                scores: work.scores[..work.scores.len().min(MAX_SCORES)].to_vec(),
                logs: Vec::new(),
            };
            let prepared = PreparedBatch::new(batch)?.replacing();
            let numbered = std::iter::once((tenant.number, &prepared, work.now));
            gathered.number(&mut tx, numbered).await?;
            let arrival = BatchArrival { tenant, now: work.now, place: 0 };
            let applied = apply(&mut tx, arrival, &prepared, &mut gathered).await?;
            gathered.write(&mut tx).await?;
            self.writer.recent.forget(tenant.number, &applied.changed);
            n_things
        }))
    }
}

/// The remaining part of a request.
struct PendingEvents<'w> {
    tenant: Tenant,
    things: &'w [PatchedObject<'w>],
    media: Vec<Media>,
    scores: &'w [NewScore],
    prices: &'w PriceTable,
    now: Timestamp,
}

impl PendingEvents<'_> {
    const fn is_done(&self) -> bool {
        self.things.is_empty() && self.media.is_empty() && self.scores.is_empty()
    }
}

/// How many of the objects fit into the transaction, and their new and stored observations.
async fn merged(
    tx: &mut Tx,
    work: &PendingEvents<'_>,
    things: &[PatchedObject<'_>],
    rollups: &mut Changes<'_>,
) -> Result<(usize, Vec<Observation>), Error> {
    let mut merged = Vec::with_capacity(things.len());
    let mut n_bytes = 0;
    for (at, (about, parts)) in things.iter().enumerate() {
        let added = add(tx, &work.tenant, about, parts).await?;
        n_bytes += added.n_bytes;
        if let Some(mut after) = added.after {
            let place = |o: &Observation| (o.trace_id.clone(), o.id.clone());
            if let Some(old) = added.before.as_ref().map(place)
                && old != place(&after)
            {
                remove(tx, &work.tenant, &old, (work.now, rollups)).await?;
            }
            work.prices.apply(&mut after);
            merged.push(after);
        }
        if MAX_BYTES < n_bytes {
            return Ok((at + 1, merged));
        }
    }
    Ok((things.len(), merged))
}

/// Removes an observation from a trace to which it no longer belongs.
async fn remove(
    tx: &mut Tx,
    tenant: &Tenant,
    (trace, id): &(TraceId, ObservationId),
    (now, rollups): (Timestamp, &mut Changes<'_>),
) -> Result<(), Error> {
    let Some(existing) = load(tx, tenant, trace, id).await? else {
        return Ok(());
    };
    rollups.subtract(tenant.number, &existing.observation);
    let args: [Arg<'_>; 3] = [tenant.number.into(), trace.as_str().into(), id.as_str().into()];
    let found = tx.rows(FIND, &args, &[ColumnType::Int, ColumnType::Int, ColumnType::Int]).await?;
    let Some([seq, trace, payload]) = found.first().map(Vec::as_slice) else {
        return Ok(());
    };
    let trace = trace.int()?;
    tx.execute(DELETE_ROW, &[seq.int()?.into()]).await?;
    let args = [payload.int()?.into(), trace.into()];
    tx.execute(DELETE_PAYLOAD, &args).await?;
    let args = [trace.into(), now.as_micros().into()];
    tx.execute(TOUCH, &args).await?;
    tx.execute(DELETE_EMPTY, &[trace.into()]).await?;
    Ok(())
}
