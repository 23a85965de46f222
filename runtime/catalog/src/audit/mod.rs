//! The audit trail: who changed the configuration, when, from where, and what.
//!
//! Invariants:
//! - **A change and its record are one transaction.** [`Catalog::audited`] runs an operation with a commit hook that
//!   adds the record to the first transaction that changes a row. No store function can omit it.
//! - **One record per operation.** Further transactions of the operation add none.
//! - **Append-only.** Records are inserted, and deleted after their retention. The hash of a record covers the one
//!   before it.
//! - **No secrets, no content of traces.** [`note`] gets lists of fields that are written by hand; a long value is
//!   replaced by its digest and its size.

mod chain;
mod list;
pub(crate) mod objects;
mod record;
mod retention;
mod states;
mod verify;

pub use list::AuditQuery;
pub use record::{AuditActor, AuditClient, AuditObject, AuditOrigin, AuditRecord, AuditResult};
pub use verify::{AuditCheckpoint, AuditFault, ChainReport};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use perpend_db::{CommitHook, Tx, in_transaction, with_hook};
use perpend_domain::time::{Clock, Timestamp};
use serde_json::Value;

use crate::{Catalog, Error, KeyOwner};
use states::changed_members;

/// The object of a change and its states.
#[derive(Debug)]
struct Note {
    object: AuditObject,
    /// Describes all transactions of the operation.
    is_whole: bool,
    before: Option<Value>,
    after: Option<Value>,
}

#[derive(Debug, Default)]
struct ChangeState {
    /// Absent until the actor is known.
    origin: Option<AuditOrigin>,
    note: Option<Note>,
    is_recorded: bool,
}

/// A running operation.
#[derive(Debug)]
struct Change {
    client: AuditClient,
    clock: Arc<dyn Clock>,
    state: Mutex<ChangeState>,
}

tokio::task_local! {
    static CURRENT: Arc<Change>;
}

impl Change {
    fn state(&self) -> MutexGuard<'_, ChangeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new(client: AuditClient, origin: Option<AuditOrigin>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let state = Mutex::new(ChangeState { origin, ..ChangeState::default() });
        Arc::new(Self { client, clock, state })
    }

    /// The record, unless the operation has one or its actor is unknown.
    fn entry(&self) -> Option<(AuditOrigin, chain::Entry)> {
        let state = self.state();
        if state.is_recorded {
            return None;
        }
        let origin = state.origin.clone()?;
        let mut entry = chain::Entry::new(&origin, AuditResult::Done, self.clock.now());
        if let Some(note) = &state.note {
            entry.describe(&note.object, note.before.as_ref(), note.after.as_ref());
        }
        Some((origin, entry))
    }
}

impl CommitHook for Change {
    fn before_commit<'a>(&'a self, tx: &'a mut Tx) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            match self.entry() {
                Some((origin, entry)) => chain::append(tx, &origin, &entry).await,
                None => Ok(()),
            }
        })
    }

    fn committed(&self) {
        let mut state = self.state();
        state.is_recorded = state.origin.is_some();
    }
}

/// The hook of a transaction that is a record itself.
#[derive(Debug)]
struct NoRecord;

impl CommitHook for NoRecord {
    fn before_commit<'a>(&'a self, _tx: &'a mut Tx) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn committed(&self) {}
}

/// An operation that a page calls has the client of the page.
fn add_client_of_page(origin: &mut AuditOrigin) {
    if let Ok(page) = CURRENT.try_with(Arc::clone) {
        let AuditClient { address, request_id, .. } = &page.client;
        origin.address = origin.address.take().or_else(|| address.clone());
        origin.request_id = origin.request_id.take().or_else(|| request_id.clone());
    }
}

/// Describes the object of the current operation with its state before and after the change, by members that are listed
/// by hand: no secrets and no content of traces. The first object of an operation is recorded; without an audited
/// operation nothing happens.
///
/// Called before the commit of the change. Of two objects, only the members that differ are recorded.
pub fn note(kind: &str, id: &str, before: Option<Value>, after: Option<Value>) {
    put_note((kind, id), false, before, after);
}

/// As [`note`], for an operation with several transactions, whose own notes are ignored then.
pub fn note_whole(kind: &str, id: &str, before: Option<Value>, after: Option<Value>) {
    put_note((kind, id), true, before, after);
}

fn put_note((kind, id): (&str, &str), is_whole: bool, before: Option<Value>, after: Option<Value>) {
    let Ok(change) = CURRENT.try_with(Arc::clone) else {
        return;
    };
    let object = AuditObject { kind: kind.to_owned(), id: Some(id.to_owned()) };
    let mut state = change.state();
    // A transaction that runs again describes the same object again.
    if state.note.as_ref().is_none_or(|note| note.object == object && !note.is_whole) {
        let (before, after) = changed_members(before, after);
        state.note = Some(Note { object, is_whole, before, after });
    }
}

/// Name of the actor of the current operation, if known.
pub(crate) fn actor() -> Option<String> {
    CURRENT.try_with(|change| change.state().origin.as_ref()?.actor.name.clone()).ok().flatten()
}

/// Sets the owner and the actor of an operation that began without them, such as a sign-in.
pub(crate) fn identify(owner: KeyOwner, actor: AuditActor) {
    let Ok(change) = CURRENT.try_with(Arc::clone) else {
        return;
    };
    let mut state = change.state();
    if state.origin.is_none() {
        let AuditClient { address, request_id, operation } = change.client.clone();
        state.origin = Some(AuditOrigin {
            owner,
            project: None,
            actor,
            address,
            request_id,
            operation,
            object: AuditObject { kind: "session".to_owned(), id: None },
        });
    }
}

async fn run<F: Future>(change: &Arc<Change>, operation: F) -> F::Output {
    let hook = Arc::clone(change) as Arc<dyn CommitHook>;
    CURRENT.scope(Arc::clone(change), with_hook(hook, operation)).await
}

impl Catalog {
    /// Runs an operation. The first transaction in it that changes a row contains the record.
    pub async fn audited<F: Future>(
        &self,
        mut origin: AuditOrigin,
        clock: Arc<dyn Clock>,
        operation: F,
    ) -> F::Output {
        add_client_of_page(&mut origin);
        let client = AuditClient {
            address: origin.address.clone(),
            request_id: origin.request_id.clone(),
            operation: origin.operation.clone(),
        };
        let change = Change::new(client, Some(origin), clock);
        let output = run(&change, operation).await;
        // The record of an operation that a page calls is that of the page too.
        if change.state().is_recorded
            && let Ok(outer) = CURRENT.try_with(Arc::clone)
        {
            outer.state().is_recorded = true;
        }
        output
    }

    /// Runs an operation whose actor becomes known in it. It leaves no record if none does.
    pub async fn audited_anonymous<F: Future>(
        &self,
        client: AuditClient,
        clock: Arc<dyn Clock>,
        operation: F,
    ) -> F::Output {
        run(&Change::new(client, None, clock), operation).await
    }

    /// Records an operation that changes nothing: one that was denied, or a read that is recorded.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn record(
        &self,
        origin: &AuditOrigin,
        result: AuditResult,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut origin = origin.clone();
        add_client_of_page(&mut origin);
        let entry = chain::Entry::new(&origin, result, now);
        // A page that called the operation has changed nothing by this, so it gets no record.
        let append = async {
            in_transaction!(&self.pool, |tx| {
                chain::append(&mut tx, &origin, &entry).await?;
            });
            Ok::<_, Error>(())
        };
        with_hook(Arc::new(NoRecord), append).await
    }
}
