//! What stored datasets promise, on each database.

use assay_domain::dataset::{DatasetItem, DatasetPatch, ItemPatch, ItemStatus, run_id};
use serde_json::json;

use super::*;
use crate::testing::on_each_database;

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
    store.dataset(&home(), name).await.unwrap().unwrap()
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
    store
        .put_dataset_item(&home(), &version, seen, revision)
        .await
        .unwrap()
}

async fn ids(store: &Store, query: &ItemQuery) -> String {
    let found = store
        .dataset_items(&home(), query, Paging::default())
        .await
        .unwrap();
    assert_eq!(found.n_total, found.items.len() as u64);
    let ids: Vec<String> = found
        .items
        .into_iter()
        .map(|version| version.item.id)
        .collect();
    ids.join(",")
}

#[tokio::test]
async fn a_dataset_is_found_by_its_name_and_keeps_what_it_ever_said() {
    on_each_database(|store| async move {
        let first = fresh("a/b", at(0));
        assert!(store.create_dataset(&home(), &first).await.unwrap());
        let taken = Dataset {
            id: "other".to_owned(),
            ..first.clone()
        };
        assert!(!store.create_dataset(&home(), &taken).await.unwrap());
        let seen = dataset(&store, "a/b").await;
        assert_eq!(seen.dataset.metadata, first.metadata);
        assert_eq!(
            seen.dataset.description.as_deref(),
            Some("for tests\u{fffd}")
        );
        let schema = DatasetPatch {
            input_schema: Some(json!({ "type": "object" })),
            ..DatasetPatch::default()
        };
        let second = seen.dataset.patched(schema, at(10));
        assert!(store.update_dataset(&home(), &seen, &second).await.unwrap());
        assert!(
            !store.update_dataset(&home(), &seen, &second).await.unwrap(),
            "an older state"
        );
        let then = store
            .dataset_at(&home(), &first.id, at(9))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(then.input_schema, None);
        let then = store
            .dataset_at(&home(), &first.id, at(10))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(then.of(&second), second);
        assert_eq!(
            store.dataset_at(&home(), &first.id, at(-1)).await.unwrap(),
            None
        );
        let all = store
            .dataset_versions(&home(), &first.id, Paging::default())
            .await
            .unwrap();
        assert_eq!((all.n_total, all.items[0].valid_from), (2, at(10)));
        store
            .create_dataset(&home(), &fresh("z", at(5)))
            .await
            .unwrap();
        let listed = store.datasets(&home(), Paging::default()).await.unwrap();
        assert_eq!(
            (listed.n_total, listed.items[0].dataset.name.as_str()),
            (2, "z")
        );
        let foreign = ProjectId::new("foreign").unwrap();
        assert_eq!(store.dataset(&foreign, "a/b").await.unwrap(), None);
        assert_eq!(
            store.dataset_at(&foreign, &first.id, at(9)).await.unwrap(),
            None
        );
    })
    .await;
}

#[tokio::test]
async fn a_dataset_reads_as_it_was_at_any_moment() {
    on_each_database(|store| async move {
        store
            .create_dataset(&home(), &fresh("d", at(0)))
            .await
            .unwrap();
        let d = dataset(&store, "d").await.dataset;
        let one = DatasetItem::new("one".to_owned(), &d, input(1), at(1));
        let two = DatasetItem::new("two".to_owned(), &d, input(2), at(2));
        assert!(put(&store, one.clone(), None, false).await);
        assert!(put(&store, two.clone(), None, false).await);
        let changed = one.patched(input(10), at(3));
        assert!(put(&store, changed.clone(), Some(one.valid_from), false).await);
        let archived = ItemPatch {
            status: Some(ItemStatus::Archived),
            ..ItemPatch::default()
        };
        assert!(
            put(
                &store,
                two.patched(archived, at(4)),
                Some(two.valid_from),
                false
            )
            .await
        );
        let gone = DatasetItem {
            valid_from: at(5),
            ..changed.clone()
        };
        assert!(put(&store, gone.clone(), Some(changed.valid_from), true).await);
        let then = async |moment: Option<Timestamp>| {
            let query = ItemQuery {
                dataset_id: Some(d.id.clone()),
                at: moment,
                ..ItemQuery::default()
            };
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
        let found = store
            .dataset_items(&home(), &at_two, Paging::default())
            .await
            .unwrap();
        assert_eq!(found.items[1].item, one, "the value of then");
        let versions = store
            .dataset_item_versions(&home(), "one", Paging::default())
            .await
            .unwrap();
        assert_eq!((versions.n_total, versions.items[0].is_deleted), (3, true));
        let now = store.dataset_item(&home(), "one").await.unwrap().unwrap();
        assert!(now.is_deleted);
        let again = DatasetItem::new("one".to_owned(), &d, input(7), at(6));
        assert!(put(&store, again, Some(gone.valid_from), false).await);
        assert_eq!(then(None).await, "one");
    })
    .await;
}

#[tokio::test]
async fn of_two_writers_of_an_item_one_has_to_look_again() {
    on_each_database(|store| async move {
        store
            .create_dataset(&home(), &fresh("d", at(0)))
            .await
            .unwrap();
        let d = dataset(&store, "d").await.dataset;
        let item = DatasetItem::new("one".to_owned(), &d, input(1), at(1));
        assert!(put(&store, item.clone(), None, false).await);
        assert!(!put(&store, item.clone(), None, false).await, "it is there");
        let changed = item.patched(input(2), at(2));
        assert!(put(&store, changed, Some(item.valid_from), false).await);
        let late = item.patched(input(3), at(3));
        assert!(!put(&store, late, Some(item.valid_from), false).await);
        let n = store
            .dataset_item_versions(&home(), "one", Paging::default())
            .await
            .unwrap();
        assert_eq!(n.n_total, 2);
    })
    .await;
}

#[tokio::test]
async fn what_was_checked_against_another_schema_is_not_written() {
    on_each_database(|store| async move {
        store
            .create_dataset(&home(), &fresh("d", at(0)))
            .await
            .unwrap();
        let seen = dataset(&store, "d").await;
        let schema = DatasetPatch {
            input_schema: Some(json!({})),
            ..DatasetPatch::default()
        };
        let next = seen.dataset.patched(schema, at(1));
        let item = DatasetItem::new("one".to_owned(), &next, input(1), at(2));
        assert!(put(&store, item, None, false).await);
        assert!(
            !store.update_dataset(&home(), &seen, &next).await.unwrap(),
            "an item came between"
        );
        let described = DatasetPatch {
            description: Some("new".to_owned()),
            ..DatasetPatch::default()
        };
        let described = seen.dataset.patched(described, at(3));
        assert!(
            store
                .update_dataset(&home(), &seen, &described)
                .await
                .unwrap(),
            "no schema, no matter"
        );
        let seen = dataset(&store, "d").await;
        let next = seen.dataset.patched(
            DatasetPatch {
                input_schema: Some(json!({})),
                ..DatasetPatch::default()
            },
            at(4),
        );
        assert!(store.update_dataset(&home(), &seen, &next).await.unwrap());
        let item = DatasetItem::new("two".to_owned(), &next, input(1), at(5));
        let version = ItemVersion {
            item,
            is_deleted: false,
        };
        let old = seen.revisions.schema;
        assert!(
            !store
                .put_dataset_item(&home(), &version, None, old)
                .await
                .unwrap()
        );
        assert!(
            store
                .put_dataset_item(&home(), &version, None, old + 1)
                .await
                .unwrap()
        );
    })
    .await;
}

#[tokio::test]
async fn deep_pages_list_each_item_once_the_newest_first() {
    on_each_database(|store| async move {
        store
            .create_dataset(&home(), &fresh("d", at(0)))
            .await
            .unwrap();
        let d = dataset(&store, "d").await.dataset;
        for n in 0..25 {
            let item = DatasetItem::new(format!("{n:02}"), &d, input(n), at(n / 3));
            assert!(put(&store, item, None, false).await);
        }
        let query = ItemQuery {
            dataset_id: Some(d.id.clone()),
            ..ItemQuery::default()
        };
        let mut seen = Vec::new();
        for page in 1..=3 {
            let paging = Paging { page, limit: 10 };
            let found = store.dataset_items(&home(), &query, paging).await.unwrap();
            assert_eq!(found.n_total, 25);
            seen.extend(found.items.into_iter().map(|version| version.item.id));
        }
        let newest_first: Vec<String> = (0..25).rev().map(|n| format!("{n:02}")).collect();
        assert_eq!(seen, newest_first);
    })
    .await;
}

#[tokio::test]
async fn a_link_made_twice_is_one_and_a_run_has_the_id_that_clients_compute() {
    on_each_database(|store| async move {
        store
            .create_dataset(&home(), &fresh("d", at(0)))
            .await
            .unwrap();
        let d = dataset(&store, "d").await.dataset;
        let link = |item: &str, description: Option<&str>| NewLink {
            run_name: "run".to_owned(),
            run_description: description.map(str::to_owned),
            metadata: None,
            item_id: item.to_owned(),
            dataset_version: Some(at(1)),
            trace_id: format!("trace of {item}"),
            observation_id: None,
            created_at: at(2),
        };
        let first = store
            .link_run_item(&home(), &d, &link("a", Some("one")), at(3))
            .await
            .unwrap();
        let again = store
            .link_run_item(&home(), &d, &link("a", None), at(4))
            .await
            .unwrap();
        assert_eq!(first, again);
        let other = store
            .link_run_item(&home(), &d, &link("b", Some("two")), at(5))
            .await
            .unwrap();
        assert_eq!(other.run_id, run_id(&home(), &d.id, "run"));
        let run = store
            .dataset_run(&home(), &other.run_id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (run.description.as_deref(), run.updated_at),
            (Some("two"), at(5))
        );
        assert_eq!((run.metadata, run.created_at), (Value::Null, at(3)));
        let query = LinkQuery {
            run_id: Some(other.run_id.clone()),
            ..LinkQuery::default()
        };
        let links = store
            .run_items(&home(), &query, Paging::default())
            .await
            .unwrap();
        assert_eq!(links.n_total, 2);
        let late = LinkQuery {
            from: Some(at(9)),
            ..LinkQuery::default()
        };
        assert_eq!(
            store
                .run_items(&home(), &late, Paging::default())
                .await
                .unwrap()
                .n_total,
            0
        );
        let foreign = ProjectId::new("foreign").unwrap();
        store
            .delete_dataset_run(&foreign, &other.run_id, at(6))
            .await
            .unwrap();
        let runs = store.dataset_runs(&home(), Some(&d.id)).await.unwrap();
        assert_eq!(runs.len(), 1, "of another project");
        store
            .delete_dataset_run(&home(), &other.run_id, at(6))
            .await
            .unwrap();
        let links = store
            .run_items(&home(), &query, Paging::default())
            .await
            .unwrap();
        assert_eq!(links.n_total, 0);
        assert!(store.dataset_runs(&home(), None).await.unwrap().is_empty());
    })
    .await;
}
