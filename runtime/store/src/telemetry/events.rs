//! Observations that come in parts: every part is kept, and the observation is what all parts make
//! together ([`assay_domain::patch`]), written in the transaction that takes a new part.
//!
//! An observation that came whole, as a span, is the base that parts are laid onto: it is kept beside
//! them, so that what they make together does not lose what none of them says.

use std::collections::{BTreeMap, BTreeSet};

use assay_domain::batch::{Batch, Media};
use assay_domain::ids::{ObservationId, ProjectId, TraceId};
use assay_domain::observation::Observation;
use assay_domain::patch::{About, Patch, condense, merge_onto};
use assay_domain::pricing::PriceTable;
use assay_domain::score::NewScore;
use assay_domain::time::Timestamp;

use super::apply::{LOCK_TRACE_POSTGRES, apply, load};
use super::db::{Arg, As, Db};
use super::prepare::prepare;
use super::{Tenant, block, rollup};
use crate::pool::in_transaction;
use crate::{Error, Store};

/// Parts kept of one thing, before the oldest become one: a sender that repeats itself without end must
/// not make reading it slower and slower.
const MAX_PARTS: usize = 1_000;

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
/// Two nodes that take parts of the same thing take turns, or each would write what its own parts make.
/// The lock ends with the transaction.
const LOCK_POSTGRES: &str = "SELECT 1 FROM pg_advisory_xact_lock(hashtextextended($1, $2))";

const FIND: &str = "
    SELECT o.seq, o.trace, COALESCE(o.payload, 0) FROM traces t JOIN observations o ON o.trace = t.number
     WHERE t.tenant = $1 AND t.trace_id = $2 AND o.id = $3";
const DELETE_ROW: &str = "DELETE FROM observations WHERE seq = $1";
const DELETE_PAYLOAD: &str = "
    DELETE FROM payloads WHERE seq = $1
       AND NOT EXISTS (SELECT 1 FROM observations WHERE trace = $2 AND payload = $1)";
const TOUCH: &str =
    "UPDATE traces SET revision = revision + 1, stale = 1, last_seen = $2 WHERE number = $1";
const DELETE_EMPTY: &str = "
    DELETE FROM traces WHERE number = $1
       AND NOT EXISTS (SELECT 1 FROM observations WHERE trace = $1)";

/// What one request of create and update events says.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    /// Parts of traces and observations.
    pub patches: Vec<Patch>,
    /// Media taken out of them.
    pub media: Vec<Media>,
    /// Scores.
    pub scores: Vec<NewScore>,
}

fn entity(about: &About) -> (i64, &str) {
    match about {
        About::Trace(trace) => (0, trace.as_str()),
        About::Observation(id) => (1, id.as_str()),
    }
}

async fn parts(db: &mut Db<'_>, tenant: i64, about: &About) -> Result<Vec<Patch>, Error> {
    let (kind, entity) = entity(about);
    let args = [tenant.into(), kind.into(), entity.into()];
    let rows = db.rows(PARTS, &args, &[As::Blob]).await?;
    rows.iter()
        .map(|cells| block::from_json(block::unpack(cells[0].blob())?.text(0)?))
        .collect()
}

/// The observation that came whole before its parts.
async fn base(
    db: &mut Db<'_>,
    tenant: i64,
    id: &ObservationId,
) -> Result<Option<Observation>, Error> {
    let args = [tenant.into(), id.as_str().into()];
    let rows = db.rows(BASE, &args, &[As::Blob]).await?;
    let body = rows.first().map(|cells| cells[0].blob());
    body.map(|body| block::from_json(block::unpack(body)?.text(0)?))
        .transpose()
}

/// Whether an observation that stands is not what the parts made: it came, or was replaced, as a span.
/// What joining log records and prices change says nothing about that.
fn came_whole(standing: &Observation, made: Option<&Observation>) -> bool {
    let told = |o: &Observation| {
        (
            (o.trace_id.clone(), o.scope_name.clone(), o.attribute_count),
            (o.name.clone(), o.kind, o.start, o.end),
            (o.model.clone(), o.usage.clone(), o.cost.clone()),
        )
    };
    made.is_none_or(|made| told(made) != told(standing))
}

/// An observation that stands where parts make one now, and does not come from them.
async fn whole(
    db: &mut Db<'_>,
    tenant: &Tenant,
    made: Option<&Observation>,
    now_made: &Observation,
) -> Result<Option<Observation>, Error> {
    let Some(standing) = load(db, tenant, &now_made.trace_id, &now_made.id).await? else {
        return Ok(None);
    };
    if !came_whole(&standing.observation, made) {
        return Ok(None);
    }
    let mut whole = standing.observation;
    if !standing.content.is_empty() {
        whole.content = block::from_json(&standing.content)?;
    }
    let body = block::pack(&[block::to_json(&whole)?.as_str()])?;
    let args: [Arg<'_>; 3] = [
        tenant.number.into(),
        whole.id.as_str().into(),
        Arg::Blob(&body),
    ];
    db.execute(SET_BASE, &args).await?;
    Ok(Some(whole))
}

/// Makes one part of the oldest when there are too many.
async fn shorten(
    db: &mut Db<'_>,
    tenant: i64,
    about: &About,
    all: &mut Vec<Patch>,
) -> Result<(), Error> {
    let gone = condense(all, MAX_PARTS);
    let (Some(first), false) = (all.first(), gone.is_empty()) else {
        return Ok(());
    };
    let (kind, entity) = entity(about);
    for event in &gone {
        let args: [Arg<'_>; 4] = [
            tenant.into(),
            kind.into(),
            entity.into(),
            event.as_str().into(),
        ];
        db.execute(DELETE_PART, &args).await?;
    }
    let body = block::pack(&[block::to_json(first)?.as_str()])?;
    let args: [Arg<'_>; 5] = [
        tenant.into(),
        kind.into(),
        entity.into(),
        first.event_id.as_str().into(),
        Arg::Blob(&body),
    ];
    db.execute(INSERT, &args).await?;
    Ok(())
}

/// Adds parts to one thing. Gives what it was and what it is.
async fn add(
    db: &mut Db<'_>,
    tenant: &Tenant,
    about: &About,
    patches: &[(&Patch, Vec<u8>)],
) -> Result<(Option<Observation>, Option<Observation>), Error> {
    let (kind, entity) = entity(about);
    let mut all = parts(db, tenant.number, about).await?;
    let under = match about {
        About::Trace(_) => None,
        About::Observation(id) => base(db, tenant.number, id).await?,
    };
    let before = match all.is_empty() {
        true => None,
        false => merge_onto(under.as_ref(), &all),
    };
    for (patch, body) in patches {
        let args: [Arg<'_>; 5] = [
            tenant.number.into(),
            kind.into(),
            entity.into(),
            patch.event_id.as_str().into(),
            Arg::Blob(body),
        ];
        if db.execute(INSERT, &args).await? == 1 {
            all.push((*patch).clone());
        }
    }
    shorten(db, tenant.number, about, &mut all).await?;
    let after = merge_onto(under.as_ref(), &all);
    if let (About::Observation(_), Some(made)) = (about, &after)
        && let Some(whole) = whole(db, tenant, before.as_ref(), made).await?
    {
        let after = merge_onto(Some(&whole), &all);
        return Ok((before, after));
    }
    Ok((before, after))
}

/// Locks what parts are about, then the traces that they name, each in their order, so that nobody waits
/// in a circle and nobody replaces an observation while parts are laid onto it.
async fn lock(
    db: &mut Db<'_>,
    tenant: i64,
    by_entity: &BTreeMap<&About, Vec<(&Patch, Vec<u8>)>>,
) -> Result<(), Error> {
    if !db.is_postgres() {
        return Ok(());
    }
    for about in by_entity.keys() {
        let args: [Arg<'_>; 2] = [entity(about).1.into(), tenant.into()];
        db.execute(LOCK_POSTGRES, &args).await?;
    }
    let patches = by_entity.values().flatten();
    let traces: BTreeSet<&TraceId> = patches
        .filter_map(|(patch, _)| patch.trace_id.as_ref())
        .collect();
    for trace in traces {
        let args: [Arg<'_>; 2] = [tenant.into(), trace.as_str().into()];
        db.execute(LOCK_TRACE_POSTGRES, &args).await?;
    }
    Ok(())
}

impl Store {
    /// Takes create and update events, in a transaction of its own. When this returns `Ok`, all of it
    /// survives power loss; the same events again change nothing, in whatever order or grouping.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn write_events(
        &self,
        project: &ProjectId,
        batch: EventBatch,
        prices: &PriceTable,
        now: Timestamp,
    ) -> Result<(), Error> {
        let tenant = self.make_tenant(project).await?;
        let mut by_entity: BTreeMap<&About, Vec<(&Patch, Vec<u8>)>> = BTreeMap::new();
        for patch in &batch.patches {
            let body = block::pack(&[block::to_json(patch)?.as_str()])?;
            by_entity
                .entry(&patch.about)
                .or_default()
                .push((patch, body));
        }
        in_transaction!(&self.pool, |tx| {
            let mut db: Db<'_> = (&mut *tx).into();
            let merged = merged(&mut db, &tenant, &by_entity, prices, now).await?;
            let batch = Batch {
                observations: merged,
                media: batch.media.clone(),
                scores: batch.scores.clone(),
                logs: Vec::new(),
            };
            let prepared = prepare(batch)?.replacing();
            let applied = apply(&mut db, &tenant, &prepared, now).await?;
            self.writer.recent.forget(tenant.number, &applied.changed);
        });
        Ok(())
    }
}

/// The observations that these parts make with those that stand.
async fn merged(
    db: &mut Db<'_>,
    tenant: &Tenant,
    by_entity: &BTreeMap<&About, Vec<(&Patch, Vec<u8>)>>,
    prices: &PriceTable,
    now: Timestamp,
) -> Result<Vec<Observation>, Error> {
    lock(db, tenant.number, by_entity).await?;
    let mut merged = Vec::with_capacity(by_entity.len());
    for (about, patches) in by_entity {
        let (before, after) = add(db, tenant, about, patches).await?;
        let Some(mut after) = after else { continue };
        let place =
            |o: &Observation| -> (TraceId, ObservationId) { (o.trace_id.clone(), o.id.clone()) };
        if let Some(old) = before.as_ref().map(place)
            && old != place(&after)
        {
            remove(db, tenant, &old, now).await?;
        }
        prices.apply(&mut after);
        merged.push(after);
    }
    Ok(merged)
}

/// Takes an observation away from a trace it does not belong to any more.
async fn remove(
    db: &mut Db<'_>,
    tenant: &Tenant,
    (trace, id): &(TraceId, ObservationId),
    now: Timestamp,
) -> Result<(), Error> {
    let args: [Arg<'_>; 3] = [
        tenant.number.into(),
        trace.as_str().into(),
        id.as_str().into(),
    ];
    let found = db.rows(FIND, &args, &[As::Int, As::Int, As::Int]).await?;
    let Some([seq, trace, payload]) = found.first().map(Vec::as_slice) else {
        return Ok(());
    };
    db.execute(rollup::subtract_row(), &[seq.int().into()])
        .await?;
    db.execute(DELETE_ROW, &[seq.int().into()]).await?;
    let args = [payload.int().into(), trace.int().into()];
    db.execute(DELETE_PAYLOAD, &args).await?;
    let args = [trace.int().into(), now.as_micros().into()];
    db.execute(TOUCH, &args).await?;
    db.execute(DELETE_EMPTY, &[trace.int().into()]).await?;
    Ok(())
}
