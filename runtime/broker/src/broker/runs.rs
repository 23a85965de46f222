//! `run-reader`: the run of an experiment that an item is.

use std::collections::HashMap;

use perpend_domain::dataset::{DatasetItem, DatasetRun, DatasetRunItem};
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::list::{NumberedPage, Paging};
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::TraceRef;
use perpend_domain::telemetry::Period;
use perpend_worker_protocol::host_call::{RunInfo, RunItem, RunPage, TraceError};
use serde_json::Value;

use super::traces::{Answer, Reader, failed, unknown_cursor};

/// Items of a page at most.
const MAX_PAGE: u32 = 100;
/// Items whose contents are held at a time, which are the items of a page.
const AT_A_TIME: u32 = 20;
/// The largest page that fits the frame that carries it.
const MAX_PAGE_BYTES: usize = 32 << 20;

type Key = (TraceId, ObservationId);

impl Reader<'_> {
    /// The run, when the item is that one: one that traces were linked to, or one that spans name.
    async fn own_run(&self, id: &str) -> Answer<DatasetRun> {
        match &self.readable.run {
            Some(own) if own == id => {}
            Some(_) => {
                let why = "only the run of the item can be read";
                return Err(TraceError::NotGranted(why.into()));
            }
            None => return Err(TraceError::NotGranted("the item is no run".into())),
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
        let named = named.ok_or_else(|| TraceError::NotFound("the run is gone".into()))?;
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
    ) -> Answer<NumberedPage<DatasetRunItem>> {
        let telemetry = &self.store.telemetry;
        let found = telemetry.run_entries(self.project, run, Some(paging)).await;
        found.map_err(|error| failed(&error))
    }

    pub(super) async fn run(&self, id: &str) -> Answer<RunInfo> {
        let run = self.own_run(id).await?;
        let one = Paging { page: 1, limit: 1 };
        let n_items = self.entries(&run, one).await?.n_total;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        Ok(RunInfo {
            n_items: u32::try_from(n_items).unwrap_or(u32::MAX),
            metadata: Some(run.metadata)
                .filter(|metadata| !metadata.is_null())
                .map(|metadata| metadata.to_string()),
            id: run.id,
            name: some(run.name),
            dataset_id: some(run.dataset_id),
        })
    }

    pub(super) async fn items_of_run(
        &self,
        id: &str,
        cursor: Option<&str>,
        limit: u32,
    ) -> Answer<RunPage> {
        let run = self.own_run(id).await?;
        // The cursor is where the page begins and how long pages are: it stays so from the first one on.
        let limit = limit.clamp(1, MAX_PAGE).min(AT_A_TIME);
        let (page, limit) = match cursor {
            None => (1, limit),
            Some(cursor) => place(cursor)?,
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
                "{limit} items of the run have {n_bytes} bytes: list fewer at a time"
            ))),
            _ => Ok(page_of_run),
        }
    }

    /// Entries with what was recorded for them, and what their items say.
    async fn items(&self, entries: Vec<DatasetRunItem>) -> Answer<Vec<RunItem>> {
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
        let wanted: Vec<Key> = keys.iter().flatten().cloned().collect();
        let found = telemetry.target_observations(self.project, &wanted, true);
        let found = found.await.map_err(|error| failed(&error))?;
        let mut recorded: HashMap<Key, Observation> = HashMap::with_capacity(found.len());
        for own in found {
            recorded.insert((own.trace_id.clone(), own.id.clone()), own);
        }
        let ids: Vec<&str> = entries.iter().map(|entry| entry.item_id.as_str()).collect();
        let asked = self.store.catalog.dataset_items_by_id(self.project, &ids).await;
        let asked = asked.map_err(|error| failed(&error))?.into_iter();
        let asked: HashMap<String, DatasetItem> =
            asked.map(|item| (item.id.clone(), item)).collect();
        let mut items = Vec::with_capacity(entries.len());
        for (entry, key) in entries.into_iter().zip(keys) {
            let own = key.and_then(|key| recorded.remove(&key));
            let asked = asked.get(entry.item_id.as_str()).cloned();
            items.push(run_item(entry, own, asked));
        }
        Ok(items)
    }
}

fn run_item(
    entry: DatasetRunItem,
    own: Option<Observation>,
    asked: Option<DatasetItem>,
) -> RunItem {
    let value = |value: Value| (!value.is_null()).then(|| Payload::from_value(value));
    let link = own.as_ref().and_then(|own| own.experiment.clone());
    let (input, output) = own.map_or((None, None), |own| (own.content.input, own.content.output));
    let (of_item, expected, metadata) = asked.map_or((None, None, None), |asked| {
        let metadata = Some(asked.metadata).filter(|metadata| !metadata.is_null());
        (value(asked.input), value(asked.expected_output), metadata)
    });
    let (said_expected, said_metadata) =
        link.map_or((None, None), |link| (link.item_expected_output, link.item_metadata));
    RunItem {
        id: entry.id,
        trace: Some(TraceRef { trace_id: entry.trace_id, observation_id: entry.observation_id }),
        input: of_item.or(input),
        output,
        expected_output: expected.or(said_expected),
        metadata: metadata.or(said_metadata).map(|metadata| metadata.to_string()),
        dataset_item_id: Some(entry.item_id).filter(|id| !id.is_empty()),
    }
}

fn place(cursor: &str) -> Answer<(u32, u32)> {
    let (page, limit) = cursor.split_once('.').ok_or_else(unknown_cursor)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| unknown_cursor());
    let (page, limit) = (number(page)?, number(limit)?);
    let is_ours = 0 < page && page < 1_000_000 && (1..=AT_A_TIME).contains(&limit);
    is_ours.then_some((page, limit)).ok_or_else(unknown_cursor)
}
