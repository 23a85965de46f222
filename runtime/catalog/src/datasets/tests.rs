//! Guarantees of stored datasets, on each database.

use perpend_domain::dataset::{DatasetItem, DatasetPatch, ItemPatch, ItemStatus};
use serde_json::json;

use super::*;
use crate::testing::{Store, on_each_database};

fn home() -> ProjectId {
    ProjectId::new("home").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

fn fresh(name: &str, now: Timestamp) -> Dataset {
    Dataset {
        id: format!("id of {name}"),
        name: name.to_owned(),
        description: Some("for tests\0".to_owned()),
        metadata: json!({ "b": 1, "a": [null, "\0"] }),
        input_schema: None,
        expected_output_schema: None,
        created_at: now,
        updated_at: now,
    }
}

async fn dataset(store: &Store, name: &str) -> StoredDataset {
    store.catalog.dataset(&home(), name).await.unwrap().unwrap()
}

fn input(n: i64) -> ItemPatch {
    ItemPatch {
        input: Some(json!({ "n": n, "text": "\0" })),
        source_trace_id: Some("trace".to_owned()),
        ..ItemPatch::default()
    }
}

async fn put(store: &Store, item: DatasetItem, seen: Option<Timestamp>, is_deleted: bool) -> bool {
    let revision = dataset(store, &item.dataset_name).await.revisions.schema;
    let version = ItemVersion { item, is_deleted };
    put_version(store, &version, seen, revision).await
}

async fn put_version(
    store: &Store,
    version: &ItemVersion,
    seen: Option<Timestamp>,
    revision: i64,
) -> bool {
    let put = async {
        in_transaction!(&store.pool, |tx| {
            let new = [NewItemVersion { version: version.clone(), seen }];
            let dataset = &version.item.dataset_id;
            if !put_items(&mut tx, &home(), dataset, &new, revision).await? {
                return Ok(false);
            }
        });
        Ok::<_, Error>(true)
    };
    put.await.unwrap()
}

async fn ids(store: &Store, query: &ItemQuery) -> String {
    let found = store.catalog.dataset_items(&home(), query, Paging::default()).await.unwrap();
    assert_eq!(found.n_total, found.items.len() as u64);
    let ids: Vec<String> = found.items.into_iter().map(|version| version.item.id).collect();
    ids.join(",")
}

#[tokio::test]
async fn a_dataset_is_found_by_name_and_keeps_all_its_versions() {
    on_each_database(|store| async move {
        let p = home();
        let first = fresh("a/b", at(0));
        assert!(store.catalog.create_dataset(&home(), &first).await.unwrap());
        let taken = Dataset { id: "other".to_owned(), ..first.clone() };
        assert!(!store.catalog.create_dataset(&home(), &taken).await.unwrap());
        let seen = dataset(&store, "a/b").await;
        assert_eq!(seen.dataset.metadata, first.metadata);
        assert_eq!(seen.dataset.description.as_deref(), Some("for tests\u{fffd}"));
        let schema = DatasetPatch {
            input_schema: Some(json!({ "type": "object" })),
            ..DatasetPatch::default()
        };
        let second = seen.dataset.patched(schema.clone(), at(10));
        let update = store.catalog.update_dataset(&p, &seen, &schema, at(10));
        assert_eq!(update.await.unwrap(), Some(second.clone()));
        let update = store.catalog.update_dataset(&p, &seen, &schema, at(11));
        assert_eq!(update.await.unwrap(), None, "an older state");
        let then = store.catalog.dataset_at(&home(), &first.id, at(9)).await.unwrap().unwrap();
        assert_eq!(then.input_schema, None);
        let then = store.catalog.dataset_at(&home(), &first.id, at(10)).await.unwrap().unwrap();
        assert_eq!(then.of(&second), second);
        assert_eq!(store.catalog.dataset_at(&home(), &first.id, at(-1)).await.unwrap(), None);
        let all =
            store.catalog.dataset_versions(&home(), &first.id, Paging::default()).await.unwrap();
        assert_eq!((all.n_total, all.items[0].valid_from), (2, at(10)));
        store.catalog.create_dataset(&home(), &fresh("z", at(5))).await.unwrap();
        let listed = store.catalog.datasets(&home(), Paging::default()).await.unwrap();
        assert_eq!((listed.n_total, listed.items[0].dataset.name.as_str()), (2, "z"));
        let foreign = ProjectId::new("foreign").unwrap();
        assert_eq!(store.catalog.dataset(&foreign, "a/b").await.unwrap(), None);
        assert_eq!(store.catalog.dataset_at(&foreign, &first.id, at(9)).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_dataset_reads_as_it_was_at_any_moment() {
    on_each_database(|store| async move {
        store.catalog.create_dataset(&home(), &fresh("d", at(0))).await.unwrap();
        let d = dataset(&store, "d").await.dataset;
        let one = DatasetItem::new("one".to_owned(), &d, input(1), at(1));
        let two = DatasetItem::new("two".to_owned(), &d, input(2), at(2));
        assert!(put(&store, one.clone(), None, false).await);
        assert!(put(&store, two.clone(), None, false).await);
        let changed = one.patched(input(10), at(3));
        assert!(put(&store, changed.clone(), Some(one.valid_from), false).await);
        let archived = ItemPatch { status: Some(ItemStatus::Archived), ..ItemPatch::default() };
        assert!(put(&store, two.patched(archived, at(4)), Some(two.valid_from), false).await);
        let gone = DatasetItem { valid_from: at(5), ..changed.clone() };
        assert!(put(&store, gone.clone(), Some(changed.valid_from), true).await);
        let then = async |moment: Option<Timestamp>| {
            let query =
                ItemQuery { dataset_id: Some(d.id.clone()), at: moment, ..ItemQuery::default() };
            ids(&store, &query).await
        };
        assert_eq!(then(Some(at(0))).await, "");
        assert_eq!(then(Some(at(1))).await, "one");
        assert_eq!(then(Some(at(3))).await, "two,one");
        assert_eq!(then(Some(at(4))).await, "one");
        assert_eq!(then(Some(at(5))).await, "");
        assert_eq!(then(None).await, "");
        let at_two = ItemQuery {
            at: Some(at(2)),
            source_trace_id: Some("trace".to_owned()),
            ..ItemQuery::default()
        };
        let found = store.catalog.dataset_items(&home(), &at_two, Paging::default()).await.unwrap();
        assert_eq!(found.items[1].item, one, "the value of then");
        let versions =
            store.catalog.dataset_item_versions(&home(), "one", Paging::default()).await.unwrap();
        assert_eq!((versions.n_total, versions.items[0].is_deleted), (3, true));
        let now = store.catalog.dataset_item(&home(), "one").await.unwrap().unwrap();
        assert!(now.is_deleted);
        let again = DatasetItem::new("one".to_owned(), &d, input(7), at(6));
        assert!(put(&store, again, Some(gone.valid_from), false).await);
        assert_eq!(then(None).await, "one");
    })
    .await;
}

#[tokio::test]
async fn items_are_read_as_of_a_time_each_or_in_their_last_state() {
    on_each_database(|store| async move {
        store.catalog.create_dataset(&home(), &fresh("d", at(0))).await.unwrap();
        let d = dataset(&store, "d").await.dataset;
        let one = DatasetItem::new("one".to_owned(), &d, input(1), at(1));
        assert!(put(&store, one.clone(), None, false).await);
        let changed = one.patched(input(2), at(3));
        assert!(put(&store, changed.clone(), Some(one.valid_from), false).await);
        let gone = DatasetItem { valid_from: at(5), ..changed.clone() };
        assert!(put(&store, gone, Some(changed.valid_from), true).await);
        let wanted = [("one", 0), ("one", 2), ("one", 4), ("one", 6), ("none", 2)];
        let wanted = wanted.map(|(id, seconds)| (id, at(seconds)));
        let found = store.catalog.dataset_items_at(&home(), &wanted).await.unwrap();
        let input_at = |seconds| found[&("one".to_owned(), at(seconds))].input["n"].clone();
        assert_eq!([0, 2, 4, 6].map(input_at), [2, 1, 2, 2].map(|n| json!(n)));
        assert_eq!(found.len(), 4);
        assert!(store.catalog.dataset_items_at(&home(), &[]).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn of_two_writers_of_an_item_one_has_to_look_again() {
    on_each_database(|store| async move {
        store.catalog.create_dataset(&home(), &fresh("d", at(0))).await.unwrap();
        let d = dataset(&store, "d").await.dataset;
        let item = DatasetItem::new("one".to_owned(), &d, input(1), at(1));
        assert!(put(&store, item.clone(), None, false).await);
        assert!(!put(&store, item.clone(), None, false).await, "it is there");
        let changed = item.patched(input(2), at(2));
        assert!(put(&store, changed, Some(item.valid_from), false).await);
        let late = item.patched(input(3), at(3));
        assert!(!put(&store, late, Some(item.valid_from), false).await);
        let n =
            store.catalog.dataset_item_versions(&home(), "one", Paging::default()).await.unwrap();
        assert_eq!(n.n_total, 2);
    })
    .await;
}

#[tokio::test]
async fn an_item_checked_against_another_schema_is_not_written() {
    on_each_database(|store| async move {
        let p = home();
        store.catalog.create_dataset(&home(), &fresh("d", at(0))).await.unwrap();
        let seen = dataset(&store, "d").await;
        let schema = DatasetPatch { input_schema: Some(json!({})), ..DatasetPatch::default() };
        let next = seen.dataset.patched(schema.clone(), at(1));
        let item = DatasetItem::new("one".to_owned(), &next, input(1), at(2));
        assert!(put(&store, item, None, false).await);
        let update = store.catalog.update_dataset(&p, &seen, &schema, at(2));
        assert_eq!(update.await.unwrap(), None, "an item came between");
        let described =
            DatasetPatch { description: Some("new".to_owned()), ..DatasetPatch::default() };
        let update = store.catalog.update_dataset(&p, &seen, &described, at(3));
        assert!(update.await.unwrap().is_some(), "no schema, no matter");
        let seen = dataset(&store, "d").await;
        let update = store.catalog.update_dataset(&p, &seen, &schema, at(4));
        let next = update.await.unwrap().unwrap();
        let item = DatasetItem::new("two".to_owned(), &next, input(1), at(5));
        let version = ItemVersion { item, is_deleted: false };
        let old = seen.revisions.schema;
        assert!(!put_version(&store, &version, None, old).await);
        assert!(put_version(&store, &version, None, old + 1).await);
    })
    .await;
}

#[tokio::test]
async fn deep_pages_list_each_item_once_the_newest_first() {
    on_each_database(|store| async move {
        store.catalog.create_dataset(&home(), &fresh("d", at(0))).await.unwrap();
        let d = dataset(&store, "d").await.dataset;
        for n in 0..25 {
            let item = DatasetItem::new(format!("{n:02}"), &d, input(n), at(n / 3));
            assert!(put(&store, item, None, false).await);
        }
        let query = ItemQuery { dataset_id: Some(d.id.clone()), ..ItemQuery::default() };
        let mut seen = Vec::new();
        for page in 1..=3 {
            let paging = Paging { page, limit: 10 };
            let found = store.catalog.dataset_items(&home(), &query, paging).await.unwrap();
            assert_eq!(found.n_total, 25);
            seen.extend(found.items.into_iter().map(|version| version.item.id));
        }
        let newest_first: Vec<String> = (0..25).rev().map(|n| format!("{n:02}")).collect();
        assert_eq!(seen, newest_first);
    })
    .await;
}

#[tokio::test]
async fn concurrent_writes_to_one_dataset_all_take_effect() {
    on_each_database(|store| async move {
        let made = fresh("d", at(0));
        store.catalog.create_dataset(&home(), &made).await.unwrap();
        for round in 0..10 {
            let seen = dataset(&store, "d").await;
            let described = DatasetPatch {
                description: Some(format!("round {round}")),
                ..DatasetPatch::default()
            };
            let noted = DatasetPatch {
                metadata: Some(json!({ "round": round })),
                ..DatasetPatch::default()
            };
            let home = home();
            let (one, other) = tokio::join!(
                store.catalog.update_dataset(&home, &seen, &described, at(round)),
                store.catalog.update_dataset(&home, &seen, &noted, at(round)),
            );
            assert!(one.unwrap().is_some() && other.unwrap().is_some());
            let existing = dataset(&store, "d").await.dataset;
            assert_eq!(existing.description, described.description);
            assert_eq!(Some(existing.metadata), noted.metadata);
        }
    })
    .await;
}

#[tokio::test]
async fn items_of_a_dataset_are_walked_without_a_gap_while_others_are_written() {
    on_each_database(|store| async move {
        let p = home();
        let of = fresh("d", at(0));
        store.catalog.create_dataset(&home(), &of).await.unwrap();
        let other = fresh("other", at(0));
        store.catalog.create_dataset(&home(), &other).await.unwrap();
        for n in 0..25 {
            // Several with the same time.
            let item = DatasetItem::new(format!("i{n:02}"), &of, input(n), at(n / 4));
            assert!(put(&store, item, None, false).await);
        }
        let foreign = DatasetItem::new("foreign".to_owned(), &other, input(1), at(2));
        assert!(put(&store, foreign, None, false).await);
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let some = store.catalog.dataset_items_after(&p, &of.id, after.as_ref(), 4);
            let some = some.await.unwrap();
            let Some(last) = some.last() else { break };
            after = Some(perpend_domain::list::Cursor::new(last.created_at, last.id.clone()));
            seen.extend(some.into_iter().map(|item| item.id));
            let newer = DatasetItem::new(format!("n{}", seen.len()), &of, input(0), at(1_000));
            assert!(put(&store, newer, None, false).await);
        }
        let expected: Vec<String> = (0..25).rev().map(|n| format!("i{n:02}")).collect();
        assert_eq!(seen, expected);
        let of_all = [of.id.as_str(), &other.id, "none"];
        let ids = store.catalog.dataset_item_ids(&p, &of_all, 3).await.unwrap();
        assert_eq!((ids[&of.id].len(), &ids[&other.id][..]), (3, &["foreign".to_owned()][..]));
        let wanted = ["i03", "foreign", "none"];
        let found = store.catalog.dataset_items_by_id(&p, &wanted).await.unwrap();
        assert_eq!(found.len(), 2);
    })
    .await;
}

async fn put_all(store: &Store, new: &[NewItemVersion], revision: i64) -> bool {
    let put = async {
        in_transaction!(&store.pool, |tx| {
            let dataset = &new[0].version.item.dataset_id;
            if !put_items(&mut tx, &home(), dataset, new, revision).await? {
                return Ok(false);
            }
        });
        Ok::<_, Error>(true)
    };
    put.await.unwrap()
}

#[tokio::test]
async fn many_items_are_written_in_one_transaction_or_none_of_them() {
    on_each_database(|store| async move {
        let of = fresh("d", at(0));
        store.catalog.create_dataset(&home(), &of).await.unwrap();
        let new = |n: i64, seen: Option<Timestamp>, moment: i64| {
            let item = DatasetItem::new(format!("i{n:03}"), &of, input(n), at(moment));
            NewItemVersion { version: ItemVersion { item, is_deleted: false }, seen }
        };
        let all: Vec<NewItemVersion> = (0..300).map(|n| new(n, None, 1)).collect();
        assert!(put_all(&store, &all, 0).await);
        let query = ItemQuery { dataset_id: Some(of.id.clone()), ..ItemQuery::default() };
        assert_eq!(store.catalog.count_dataset_items(&home(), &query).await.unwrap(), 300);
        // One of them has another version meanwhile.
        let some = [new(300, None, 2), new(0, Some(at(0)), 2)];
        assert!(!put_all(&store, &some, 0).await);
        let taken = [new(301, None, 2), new(1, None, 2)];
        assert!(!put_all(&store, &taken, 0).await);
        assert!(!put_all(&store, &[new(302, None, 2)], 7).await, "other schemas");
        assert_eq!(store.catalog.count_dataset_items(&home(), &query).await.unwrap(), 300);
        let (first, is_cut) =
            store.catalog.oldest_dataset_items(&home(), &query, None, 2).await.unwrap();
        let ids: Vec<&str> = first.iter().map(|version| version.item.id.as_str()).collect();
        assert_eq!((ids.as_slice(), is_cut), (["i000", "i001"].as_slice(), false));
    })
    .await;
}

#[tokio::test]
async fn the_history_of_a_dataset_tells_what_was_added_changed_and_removed() {
    on_each_database(|store| async move {
        let of = fresh("d", at(0));
        store.catalog.create_dataset(&home(), &of).await.unwrap();
        let one = DatasetItem::new("one".to_owned(), &of, input(1), at(1));
        let two = DatasetItem::new("two".to_owned(), &of, input(2), at(2));
        let three = DatasetItem::new("three".to_owned(), &of, input(3), at(2));
        for item in [&one, &two, &three] {
            assert!(put(&store, item.clone(), None, false).await);
        }
        // An hour later.
        let changed = one.patched(input(10), at(3_600));
        assert!(put(&store, changed.clone(), Some(one.valid_from), false).await);
        let gone = DatasetItem { valid_from: at(3_601), ..two.clone() };
        assert!(put(&store, gone, Some(two.valid_from), true).await);
        let archive = ItemPatch { status: Some(ItemStatus::Archived), ..ItemPatch::default() };
        let archived = three.patched(archive, at(3_602));
        assert!(put(&store, archived, Some(three.valid_from), false).await);
        let catalog = &store.catalog;
        let log = catalog.dataset_changes(&home(), &of.id, Paging::default()).await.unwrap();
        let counts = |entry: &ChangeLogEntry| {
            [entry.n_added, entry.n_changed, entry.n_removed, entry.n_settings]
        };
        assert_eq!(log.n_total, 2);
        assert_eq!(counts(&log.items[0]), [0, 1, 2, 0]);
        assert_eq!((counts(&log.items[1]), log.items[1].last_at), ([3, 0, 0, 1], at(2)));
        let instants = (at(2), at(4_000));
        let differences = catalog
            .dataset_differences(&home(), &of.id, instants, Paging::default())
            .await
            .unwrap();
        let ids: Vec<&str> = differences.items.iter().map(|each| each.id.as_str()).collect();
        assert_eq!(ids, ["one", "three", "two"]);
        assert_eq!(differences.items[0].after.unwrap().valid_from, changed.valid_from);
        assert_eq!(differences.items[2].after, None);
        let counts = catalog.count_dataset_differences(&home(), &of.id, instants).await.unwrap();
        assert_eq!(counts, DifferenceCounts { n_added: 0, n_changed: 1, n_removed: 2 });
        let back = (at(4_000), at(2));
        let counts = catalog.count_dataset_differences(&home(), &of.id, back).await.unwrap();
        assert_eq!(counts, DifferenceCounts { n_added: 2, n_changed: 1, n_removed: 0 });
        let after_one =
            catalog.some_dataset_differences(&home(), &of.id, instants, "one", 10).await.unwrap();
        assert_eq!(after_one.len(), 2);
        let versions = [("one", one.valid_from), ("one", changed.valid_from), ("two", at(9))];
        let found = catalog.dataset_items_in_versions(&home(), &versions).await.unwrap();
        assert_eq!(found.len(), 2);
        let none = catalog
            .count_dataset_differences(&ProjectId::new("foreign").unwrap(), &of.id, instants)
            .await
            .unwrap();
        assert_eq!(none, DifferenceCounts::default());
    })
    .await;
}

#[tokio::test]
async fn a_renamed_dataset_keeps_its_items_and_a_deleted_one_loses_them() {
    on_each_database(|store| async move {
        for name in ["a", "b"] {
            store.catalog.create_dataset(&home(), &fresh(name, at(0))).await.unwrap();
        }
        let a = dataset(&store, "a").await.dataset;
        let item = DatasetItem::new("one".to_owned(), &a, input(1), at(1));
        assert!(put(&store, item, None, false).await);
        let name = |raw: &str| perpend_domain::dataset::DatasetName::new(raw).unwrap();
        let rename = |to: &str| {
            let (catalog, id, to) = (store.catalog.clone(), a.id.clone(), name(to));
            async move { catalog.rename_dataset(&home(), &id, &to, at(5)).await.unwrap() }
        };
        assert!(!rename("b").await);
        assert!(rename("folder/a").await);
        let found = store.catalog.dataset_item(&home(), "one").await.unwrap().unwrap();
        assert_eq!(found.item.dataset_name, "folder/a");
        let delete = async {
            let is_deleted = in_transaction!(&store.pool, |tx| {
                delete_dataset(&mut tx, &home(), &a.id).await?
            });
            Ok::<_, Error>(is_deleted)
        };
        assert!(delete.await.unwrap());
        assert_eq!(store.catalog.dataset_item(&home(), "one").await.unwrap(), None);
        assert_eq!(store.catalog.dataset(&home(), "folder/a").await.unwrap(), None);
        assert!(store.catalog.dataset(&home(), "b").await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn items_are_searched_by_status_text_and_metadata_and_counted_by_dataset() {
    on_each_database(|store| async move {
        let p = home();
        let of = fresh("d", at(0));
        store.catalog.create_dataset(&p, &of).await.unwrap();
        store.catalog.create_dataset(&p, &fresh("empty", at(0))).await.unwrap();
        let item = |id: &str, text: &str, metadata: serde_json::Value, seconds: i64| {
            let patch = ItemPatch {
                input: Some(json!({ "q": text })),
                metadata: Some(metadata),
                ..ItemPatch::default()
            };
            DatasetItem::new(id.to_owned(), &of, patch, at(seconds))
        };
        let first = item("a", "Where is 50% of it?", json!({ "tier": "gold", "n": 1 }), 1);
        let second = item("b", "A \"quoted\" line", json!({ "in": { "n": 12 } }), 2);
        assert!(put(&store, first.clone(), None, false).await);
        assert!(put(&store, second.clone(), None, false).await);
        let archive = ItemPatch { status: Some(ItemStatus::Archived), ..ItemPatch::default() };
        let archived = second.patched(archive, at(3));
        assert!(put(&store, archived, Some(at(2)), false).await);
        let found = async |change: fn(&mut ItemSearch)| {
            let mut search = ItemSearch { dataset_id: of.id.clone(), ..ItemSearch::default() };
            change(&mut search);
            let page = Paging { page: 1, limit: 10 };
            let found = store.catalog.search_dataset_items(&p, &search, page).await.unwrap();
            assert_eq!(found.n_total, found.items.len() as u64);
            found.items.into_iter().map(|found| found.item.id).collect::<Vec<_>>().join(",")
        };
        assert_eq!(found(|_| ()).await, "b,a");
        assert_eq!(found(|search| search.status = Some(ItemStatus::Active)).await, "a");
        assert_eq!(found(|search| search.text = Some("where".to_owned())).await, "a");
        assert_eq!(found(|search| search.text = Some("50%".to_owned())).await, "a");
        assert_eq!(found(|search| search.text = Some("5_".to_owned())).await, "");
        assert_eq!(found(|search| search.text = Some("\"quoted\"".to_owned())).await, "b");
        assert_eq!(found(|search| search.metadata = Some(("n".into(), "1".into()))).await, "a");
        assert_eq!(found(|search| search.metadata = Some(("n".into(), "12".into()))).await, "b");
        assert_eq!(found(|search| search.at = Some(at(2))).await, "b,a");
        assert_eq!(found(|search| search.at = Some(at(1))).await, "a");
        let next = store.catalog.next_dataset_item(&p, &first).await.unwrap();
        assert_eq!(next, None);
        let summaries = store.catalog.dataset_summaries(&p, 10).await.unwrap();
        let names: Vec<&str> = summaries.iter().map(|summary| summary.name.as_str()).collect();
        assert_eq!(names, ["d", "empty"]);
        assert!(!summaries[0].has_input_schema && !summaries[0].has_expected_output_schema);
        let ids: Vec<&str> = summaries.iter().map(|summary| summary.id.as_str()).collect();
        let counts = store.catalog.dataset_item_counts(&p, &ids).await.unwrap();
        assert_eq!(counts.len(), 1);
        assert_eq!(counts[&of.id], ItemCounts { n_active: 1, changed_at: at(3) });
    })
    .await;
}

#[tokio::test]
async fn an_archived_dataset_keeps_its_time_and_a_dataset_its_baseline() {
    on_each_database(|store| async move {
        let (p, catalog) = (home(), &store.catalog);
        for name in ["a", "b"] {
            catalog.create_dataset(&p, &fresh(name, at(0))).await.unwrap();
        }
        let id = "id of a";
        for seconds in [1, 2] {
            catalog.archive_dataset(&p, id, Some(at(seconds))).await.unwrap();
        }
        catalog.set_dataset_baseline(&p, id, Some("run")).await.unwrap();
        let stored = dataset(&store, "a").await;
        assert_eq!(stored.archived_at, Some(at(1)));
        assert_eq!(stored.baseline_run_id.as_deref(), Some("run"));
        assert_eq!(stored.dataset.updated_at, at(0), "a state is not part of a version");
        let names = async |is_archived: Option<bool>| {
            let paging = Paging { page: 1, limit: 10 };
            let found = catalog.datasets_by_state(&p, is_archived, paging).await.unwrap();
            assert_eq!(found.n_total, found.items.len() as u64);
            found.items.into_iter().map(|one| one.dataset.name).collect::<Vec<_>>().join(",")
        };
        assert_eq!(names(Some(true)).await, "a");
        assert_eq!(names(Some(false)).await, "b");
        assert_eq!(names(None).await, "b,a");
        let summaries = catalog.dataset_summaries(&p, 10).await.unwrap();
        assert!(summaries[0].is_archived && !summaries[1].is_archived);
        catalog.archive_dataset(&p, id, None).await.unwrap();
        catalog.set_dataset_baseline(&p, id, None).await.unwrap();
        let stored = dataset(&store, "a").await;
        assert_eq!((stored.archived_at, stored.baseline_run_id), (None, None));
    })
    .await;
}
