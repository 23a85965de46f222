//! `run-reader`: the experiment run that an item represents.

use std::collections::HashMap;

use perpend_domain::dataset::{DatasetItem, DatasetRun, DatasetRunItem};
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::list::{NumberedPage, Paging};
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::TraceRef;
use perpend_domain::telemetry::Period;
use perpend_domain::time::Timestamp;
use perpend_worker_protocol::host_call::{RunInfo, RunItem, RunPage, TraceError};
use serde_json::Value;

use super::traces::{Reader, TraceResult, failed, unknown_cursor};

/// Maximum number of items of a page in the WIT contract.
const MAX_PAGE: u32 = 100;
/// Maximum number of items of a page whose contents are in memory.
const MAX_LOADED: u32 = 20;
/// Maximum size of a page; it must fit in a frame.
const MAX_PAGE_BYTES: usize = 32 << 20;

type Key = (TraceId, ObservationId);

impl Reader<'_> {
    /// The item's run: one with linked traces, or one from span attributes. Fails for other runs.
    async fn own_run(&self, id: &str) -> TraceResult<DatasetRun> {
        match &self.read_scope.run {
            Some(own) if own == id => {}
            Some(_) => {
                let message = "only the run of the item can be read";
                return Err(TraceError::NotGranted(message.into()));
            }
            None => return Err(TraceError::NotGranted("the item is not a run".into())),
        }
        let telemetry = &self.store.telemetry;
        let found = telemetry.dataset_run(self.project, id).await;
        if let Some(run) = found.map_err(|error| failed(&error))? {
            return Ok(run);
        }
        let ids = [id];
        let named = telemetry.span_experiments(self.project, &ids, Period::default());
        let named = named.await.map_err(|error| failed(&error))?;
        let named = named.into_iter().next();
        let named = named.ok_or_else(|| TraceError::NotFound("the run was deleted".into()))?;
        Ok(DatasetRun {
            id: named.id,
            name: named.link.name.unwrap_or_default(),
            description: named.link.description,
            metadata: named.link.metadata.unwrap_or_default(),
            dataset_id: named.link.dataset_id.unwrap_or_default(),
            dataset_name: String::new(),
            created_at: named.start,
            updated_at: named.end,
        })
    }

    async fn entries(
        &self,
        run: &DatasetRun,
        paging: Paging,
    ) -> TraceResult<NumberedPage<DatasetRunItem>> {
        let telemetry = &self.store.telemetry;
        let found = telemetry.run_entries(self.project, run, Some(paging)).await;
        found.map_err(|error| failed(&error))
    }

    pub(super) async fn run(&self, id: &str) -> TraceResult<RunInfo> {
        let run = self.own_run(id).await?;
        let one = Paging { page: 1, limit: 1 };
        let n_items = self.entries(&run, one).await?.n_total;
        let non_empty = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(RunInfo {
            n_items: u32::try_from(n_items).unwrap_or(u32::MAX),
            metadata: Some(run.metadata)
                .filter(|metadata| !metadata.is_null())
                .map(|metadata| metadata.to_string()),
            id: run.id,
            name: non_empty(run.name),
            dataset_id: non_empty(run.dataset_id),
        })
    }

    pub(super) async fn items_of_run(
        &self,
        id: &str,
        cursor: Option<&str>,
        limit: u32,
    ) -> TraceResult<RunPage> {
        let run = self.own_run(id).await?;
        // The cursor holds the page number and the page length, which is that of the first page.
        let limit = limit.clamp(1, MAX_PAGE).min(MAX_LOADED);
        let (page, limit) = match cursor {
            None => (1, limit),
            Some(cursor) => parse_cursor(cursor)?,
        };
        let found = self.entries(&run, Paging { page, limit }).await?;
        let n_before = u64::from(page) * u64::from(limit);
        let items = self.items(found.items).await?;
        let page_of_run = RunPage {
            next_cursor: (n_before < found.n_total).then(|| format!("{}.{limit}", page + 1)),
            items,
        };
        match page_of_run.size() {
            n_bytes if MAX_PAGE_BYTES < n_bytes => Err(TraceError::TooLarge(format!(
                "{limit} items of the run have {n_bytes} bytes; request fewer items per page"
            ))),
            _ => Ok(page_of_run),
        }
    }

    /// Joins entries with their recorded observations and their dataset items.
    async fn items(&self, entries: Vec<DatasetRunItem>) -> TraceResult<Vec<RunItem>> {
        let telemetry = &self.store.telemetry;
        let traces: Vec<TraceId> = entries
            .iter()
            .filter(|entry| entry.observation_id.is_none())
            .filter_map(|entry| TraceId::new(&entry.trace_id).ok())
            .collect();
        let roots = telemetry.trace_roots(self.project, &traces).await;
        let roots = roots.map_err(|error| failed(&error))?;
        let key = |entry: &DatasetRunItem| -> Option<Key> {
            let trace = TraceId::new(&entry.trace_id).ok()?;
            let id = match &entry.observation_id {
                Some(id) => ObservationId::new(id).ok()?,
                None => roots.get(&trace)?.clone(),
            };
            Some((trace, id))
        };
        let keys: Vec<Option<Key>> = entries.iter().map(key).collect();
        let existing: Vec<Key> = keys.iter().flatten().cloned().collect();
        let found = telemetry.target_observations(self.project, &existing, true);
        let found = found.await.map_err(|error| failed(&error))?;
        let mut recorded: HashMap<Key, Observation> = HashMap::with_capacity(found.len());
        for own in found {
            recorded.insert((own.trace_id.clone(), own.id.clone()), own);
        }
        let versions: Vec<(&str, Timestamp)> =
            entries.iter().map(|entry| (entry.item_id.as_str(), entry.version())).collect();
        let dataset_items = self.store.catalog.dataset_items_at(self.project, &versions).await;
        let dataset_items = dataset_items.map_err(|error| failed(&error))?;
        let mut items = Vec::with_capacity(entries.len());
        for (entry, key) in entries.into_iter().zip(keys) {
            let own = key.and_then(|key| recorded.remove(&key));
            let dataset_item =
                dataset_items.get(&(entry.item_id.clone(), entry.version())).cloned();
            items.push(run_item(entry, own, dataset_item));
        }
        Ok(items)
    }
}

fn run_item(
    entry: DatasetRunItem,
    own: Option<Observation>,
    dataset_item: Option<DatasetItem>,
) -> RunItem {
    let value = |value: Value| (!value.is_null()).then(|| Payload::from_value(value));
    let link = own.as_ref().and_then(|own| own.experiment.clone());
    let (input, output) = own.map_or((None, None), |own| (own.content.input, own.content.output));
    let (item_input, expected, metadata) = dataset_item.map_or((None, None, None), |item| {
        let metadata = Some(item.metadata).filter(|metadata| !metadata.is_null());
        (value(item.input), value(item.expected_output), metadata)
    });
    let (linked_expected, linked_metadata) =
        link.map_or((None, None), |link| (link.item_expected_output, link.item_metadata));
    RunItem {
        id: entry.id,
        trace: Some(TraceRef { trace_id: entry.trace_id, observation_id: entry.observation_id }),
        input: item_input.or(input),
        output,
        expected_output: expected.or(linked_expected),
        metadata: metadata.or(linked_metadata).map(|metadata| metadata.to_string()),
        dataset_item_id: Some(entry.item_id).filter(|id| !id.is_empty()),
    }
}

fn parse_cursor(cursor: &str) -> TraceResult<(u32, u32)> {
    let (page, limit) = cursor.split_once('.').ok_or_else(unknown_cursor)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| unknown_cursor());
    let (page, limit) = (number(page)?, number(limit)?);
    let is_valid = 0 < page && page < 1_000_000 && (1..=MAX_LOADED).contains(&limit);
    is_valid.then_some((page, limit)).ok_or_else(unknown_cursor)
}
