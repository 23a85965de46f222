//! Writes many items of a dataset at once: each is validated, and the valid ones are written in one transaction.
//!
//! The endpoints for batches, restore, import and additions from traces share this function.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use perpend_broker::Engine;
use perpend_catalog::dataset_imports::{ImportAdvance, ImportCounts};
use perpend_catalog::datasets::{ItemVersion, NewItemVersion, StoredDataset};
use perpend_domain::dataset::{DatasetItem, ItemPatch};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::Web;
use perpend_http_kit::problem::Problem;
use perpend_storage::{ItemsWrite, Store};
use serde::Serialize;
use utoipa::ToSchema;

use super::schema::{self, ExcessWork};

/// Concurrent changes after which a write fails.
const MAX_TRIES: u32 = 20;

/// The stores and services behind writes of items; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ItemWriter {
    pub(crate) store: Store,
    pub(crate) engine: Arc<Engine>,
    pub(crate) web: Web,
}

/// A change of an item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ItemChange {
    /// Creates the item, or its next version.
    Put(Box<ItemPatch>),
    /// Deletes the item; its versions are kept.
    Delete,
}

/// A change of the item with this id.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ItemWrite {
    pub(crate) id: String,
    pub(crate) change: ItemChange,
}

/// The treatment of an item that exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnExisting {
    /// It gets a new version.
    #[default]
    Update,
    /// It is unchanged.
    Skip,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = DatasetItemResult)]
pub(crate) enum ItemResult {
    /// The item is new.
    Created,
    /// The item has a new version.
    Updated,
    /// The item has the values already.
    Unchanged,
    /// The item is deleted.
    Deleted,
    /// The item exists and was to be left as it is.
    Skipped,
    /// The change was not made because of its problems.
    Invalid,
}

impl ItemResult {
    /// Counts the outcome of a row of an import.
    pub(crate) fn count(self, counts: &mut ImportCounts) {
        let count = match self {
            Self::Created => &mut counts.n_created,
            Self::Updated | Self::Deleted => &mut counts.n_updated,
            Self::Unchanged => &mut counts.n_unchanged,
            Self::Skipped => &mut counts.n_skipped,
            Self::Invalid => &mut counts.n_invalid,
        };
        *count += 1;
    }
}

/// A reason for which a change was not made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DatasetItemProblem)]
pub(crate) struct ItemProblem {
    /// Member of the item.
    pub(crate) field: String,
    /// JSON Pointer into the member.
    pub(crate) pointer: String,
    pub(crate) message: String,
}

impl ItemProblem {
    pub(crate) fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.to_owned(), pointer: String::new(), message: message.into() }
    }
}

/// The outcome of one change, in the position of the change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ItemOutcome {
    pub(crate) id: String,
    pub(crate) result: ItemResult,
    pub(crate) problems: Vec<ItemProblem>,
    /// Start of the version of the item after the change; absent if it has none.
    pub(crate) version: Option<Timestamp>,
}

/// Settings of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub(crate) on_existing: OnExisting,
    /// Only reports the outcomes.
    pub(crate) is_dry_run: bool,
}

/// What a transaction writes in addition to items, given their outcomes.
pub(crate) type Companion<'c> = dyn Fn(&[ItemOutcome]) -> ImportAdvance + Send + Sync + 'c;

/// The planned change of an item.
enum Plan {
    Done(ItemOutcome),
    Write { new: Box<NewItemVersion>, result: ItemResult },
}

impl ItemWriter {
    /// Makes changes of items of one dataset; the outcomes are in the order of the changes. An id that occurs
    /// again is invalid from the second time on.
    ///
    /// # Errors
    /// 404 if the dataset does not exist, 503 when the check failed or the dataset changed too often.
    pub(crate) async fn write(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        writes: &[ItemWrite],
        options: WriteOptions,
    ) -> Result<Vec<ItemOutcome>, Problem> {
        let written = self.write_with(project, dataset_id, writes, options, None).await?;
        written.ok_or_else(Problem::internal)
    }

    /// As [`ItemWriter::write`], with a companion that is written in the same transaction. `None` if the
    /// companion was refused; then nothing was written.
    pub(crate) async fn write_with(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        writes: &[ItemWrite],
        options: WriteOptions,
        companion: Option<&Companion<'_>>,
    ) -> Result<Option<Vec<ItemOutcome>>, Problem> {
        for _ in 0..MAX_TRIES {
            let stored = self.store.catalog.dataset_by_id(project, dataset_id).await?;
            let stored = stored.ok_or_else(|| Problem::not_found("dataset"))?;
            let plans = self.plan(project, &stored, writes, options).await?;
            let (outcomes, new) = self.checked(project, &stored, plans).await?;
            let advance = companion.map(|companion| companion(&outcomes));
            if options.is_dry_run || (new.is_empty() && advance.is_none()) {
                return Ok(Some(outcomes));
            }
            let revision = stored.revisions.schema;
            let store = &self.store;
            let put =
                store.put_dataset_items(project, dataset_id, &new, revision, advance.as_ref());
            match put.await? {
                ItemsWrite::Written => return Ok(Some(outcomes)),
                ItemsWrite::LeaseLost => return Ok(None),
                ItemsWrite::Changed => {}
            }
        }
        Err(busy())
    }

    /// The planned change of each item.
    async fn plan(
        &self,
        project: &ProjectId,
        stored: &StoredDataset,
        writes: &[ItemWrite],
        options: WriteOptions,
    ) -> Result<Vec<Plan>, Problem> {
        let ids: Vec<&str> = writes.iter().map(|write| write.id.as_str()).collect();
        let current = self.store.catalog.dataset_item_states(project, &ids).await?;
        let mut current: HashMap<String, ItemVersion> =
            current.into_iter().map(|version| (version.item.id.clone(), version)).collect();
        let mut seen: HashSet<&str> = HashSet::with_capacity(writes.len());
        let now = self.web.clock.now();
        let plans = writes.iter().map(|write| {
            if !seen.insert(&write.id) {
                return invalid(&write.id, ItemProblem::new("id", "must not be repeated"));
            }
            plan(stored, write, current.remove(&write.id), options.on_existing, now)
        });
        Ok(plans.collect())
    }

    /// The outcomes of plans after validation, and the versions to write.
    async fn checked(
        &self,
        project: &ProjectId,
        stored: &StoredDataset,
        plans: Vec<Plan>,
    ) -> Result<(Vec<ItemOutcome>, Vec<NewItemVersion>), Problem> {
        let is_checked = |new: &NewItemVersion| !new.version.is_deleted;
        let items = plans.iter().filter_map(|plan| match plan {
            Plan::Write { new, .. } if is_checked(new) => Some(new.version.item.clone()),
            _ => None,
        });
        let items: Vec<DatasetItem> = items.collect();
        let violations = match items.is_empty() {
            true => Vec::new(),
            false => {
                let excess = ExcessWork::Violates;
                let dataset = &stored.dataset;
                schema::violations(&self.engine, project, dataset, &items, excess).await?
            }
        };
        let mut violations = violations.into_iter();
        let mut outcomes = Vec::with_capacity(plans.len());
        let mut written = Vec::new();
        for plan in plans {
            let (new, result) = match plan {
                Plan::Done(outcome) => {
                    outcomes.push(outcome);
                    continue;
                }
                Plan::Write { new, result } => (new, result),
            };
            let problems = match is_checked(&new) {
                true => violations.next().unwrap_or_default(),
                false => Vec::new(),
            };
            let item = &new.version.item;
            if problems.is_empty() {
                outcomes.push(ItemOutcome {
                    id: item.id.clone(),
                    result,
                    problems: Vec::new(),
                    version: (!new.version.is_deleted).then_some(item.valid_from),
                });
                written.push(*new);
            } else {
                let problems = problems.into_iter().map(|violation| ItemProblem {
                    field: violation.field.to_owned(),
                    pointer: violation.pointer,
                    message: violation.message,
                });
                outcomes.push(ItemOutcome {
                    id: item.id.clone(),
                    result: ItemResult::Invalid,
                    problems: problems.collect(),
                    version: new.seen,
                });
            }
        }
        Ok((outcomes, written))
    }
}

fn planned(version: ItemVersion, seen: Option<Timestamp>, result: ItemResult) -> Plan {
    Plan::Write { new: Box::new(NewItemVersion { version, seen }), result }
}

fn done(id: &str, result: ItemResult, version: Option<Timestamp>) -> Plan {
    Plan::Done(ItemOutcome { id: id.to_owned(), result, problems: Vec::new(), version })
}

fn invalid(id: &str, problem: ItemProblem) -> Plan {
    let result = ItemResult::Invalid;
    Plan::Done(ItemOutcome { id: id.to_owned(), result, problems: vec![problem], version: None })
}

fn plan(
    stored: &StoredDataset,
    write: &ItemWrite,
    current: Option<ItemVersion>,
    on_existing: OnExisting,
    now: Timestamp,
) -> Plan {
    let dataset = &stored.dataset;
    if current.as_ref().is_some_and(|known| known.item.dataset_id != dataset.id) {
        let problem = ItemProblem::new("id", "an item of another dataset has this id");
        return invalid(&write.id, problem);
    }
    let seen = current.as_ref().map(|known| known.item.valid_from);
    match (&write.change, current) {
        (ItemChange::Delete, Some(ItemVersion { item, is_deleted: false })) => {
            let valid_from = item.next_moment(now);
            let version =
                ItemVersion { item: DatasetItem { valid_from, ..item }, is_deleted: true };
            planned(version, seen, ItemResult::Deleted)
        }
        (ItemChange::Delete, _) => {
            invalid(&write.id, ItemProblem::new("id", "no such item in this dataset"))
        }
        (ItemChange::Put(_), Some(ItemVersion { item, is_deleted: false }))
            if on_existing == OnExisting::Skip =>
        {
            done(&write.id, ItemResult::Skipped, Some(item.valid_from))
        }
        (ItemChange::Put(patch), Some(ItemVersion { item, is_deleted: false })) => {
            let next = item.patched(ItemPatch::clone(patch), now);
            if next == item {
                return done(&write.id, ItemResult::Unchanged, seen);
            }
            let version = ItemVersion { item: next, is_deleted: false };
            planned(version, seen, ItemResult::Updated)
        }
        (ItemChange::Put(patch), current) => {
            // A deleted item starts without the members of its last version.
            let moment = current.map_or(now, |known| known.item.next_moment(now));
            let item = DatasetItem::new(write.id.clone(), dataset, ItemPatch::clone(patch), moment);
            let version = ItemVersion { item, is_deleted: false };
            planned(version, seen, ItemResult::Created)
        }
    }
}

/// Too many concurrent changes of the dataset.
pub(super) fn busy() -> Problem {
    Problem::unavailable("the dataset changed too often during the request; send it again")
}
