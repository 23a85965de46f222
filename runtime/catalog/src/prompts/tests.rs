//! Guarantees of stored prompts, on each database.

mod filters;

use perpend_domain::filter::Filter;
use perpend_domain::prompt::LATEST;
use serde_json::json;

use super::*;
use crate::testing::{Store, on_each_database};
use perpend_domain::list::Paging;

fn project(name: &str) -> ProjectId {
    ProjectId::new(name).unwrap()
}

fn name(raw: &str) -> PromptName {
    PromptName::new(raw).unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

fn text(prompt: &str, body: &str, labels: &[&str]) -> NewPrompt {
    let body = PromptBody::Text(body.to_owned());
    NewPrompt {
        id: format!("{prompt} {body:?} {labels:?}"),
        name: name(prompt),
        references: body.references().unwrap(),
        body,
        config: json!({ "temperature": 0.5 }),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        tags: None,
        commit_message: Some("why\0".to_owned()),
        created_by: "API".to_owned(),
    }
}

fn label(label: &str) -> VersionSelector {
    VersionSelector::Label(label.to_owned())
}

async fn labels_of(store: &Store, prompt: &str, version: i64) -> Vec<String> {
    let (home, name) = (project("home"), name(prompt));
    let found = store.catalog.prompt(&home, &name, &VersionSelector::Version(version)).await;
    found.unwrap().unwrap().labels
}

#[tokio::test]
async fn a_label_is_on_one_version_and_latest_is_on_the_newest() {
    on_each_database(|store| async move {
        let home = project("home");
        let new = text("a/tone", "one", &["production"]);
        let one = store.catalog.create_prompt(&home, &new, at(0));
        let one = one.await.unwrap();
        assert_eq!(
            (one.version, one.labels.as_slice()),
            (1, &["latest".to_owned(), "production".to_owned()][..])
        );
        assert_eq!(one.config, json!({ "temperature": 0.5 }));
        assert_eq!(one.commit_message.as_deref(), Some("why\u{fffd}"));
        let new = text("a/tone", "two", &["production"]);
        let two = store.catalog.create_prompt(&home, &new, at(1));
        assert_eq!(two.await.unwrap().version, 2);
        assert_eq!(labels_of(&store, "a/tone", 1).await, Vec::<String>::new());
        let moved = ["staging".to_owned(), "production".to_owned()];
        let moved = store
            .catalog
            .label_prompt(
                &home,
                &name("a/tone"),
                1,
                LabelChange { added: &moved, ..LabelChange::default() },
                at(2),
            )
            .await
            .unwrap();
        assert_eq!(moved.labels, ["production", "staging"]);
        assert_eq!((moved.created_at, moved.updated_at), (at(0), at(2)));
        assert_eq!(labels_of(&store, "a/tone", 2).await, [LATEST]);
        let found =
            store.catalog.prompt(&home, &name("a/tone"), &label("production")).await.unwrap();
        assert_eq!(found, Some(moved));
        let foreign =
            store.catalog.prompt(&project("foreign"), &name("a/tone"), &label(LATEST)).await;
        assert_eq!(foreign.unwrap(), None);
        let none = store
            .catalog
            .label_prompt(&home, &name("a/tone"), 9, LabelChange::default(), at(2))
            .await;
        assert!(matches!(none, Err(Error::NotFound)));
    })
    .await;
}

#[tokio::test]
async fn versions_made_at_the_same_time_get_numbers_of_their_own() {
    on_each_database(|store| async move {
        let home = project("home");
        let made = (0..8).map(|n| {
            let (store, home) = (store.clone(), home.clone());
            async move {
                let new = text("busy", &format!("text {n}"), &["production"]);
                store.catalog.create_prompt(&home, &new, at(n)).await.unwrap().version
            }
        });
        let mut numbers = futures_util::future::join_all(made).await;
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
        let newest = store.catalog.prompt(&home, &name("busy"), &label(LATEST)).await.unwrap();
        assert_eq!(newest.unwrap().version, 8);
    })
    .await;
}

#[tokio::test]
async fn tags_belong_to_the_prompt_and_its_kind_does_not_change() {
    on_each_database(|store| async move {
        let home = project("home");
        let mut new = text("a", "one", &[]);
        new.tags = Some(vec!["x".to_owned(), "y".to_owned()]);
        store.catalog.create_prompt(&home, &new, at(0)).await.unwrap();
        let kept = store.catalog.create_prompt(&home, &text("a", "two", &[]), at(1)).await.unwrap();
        assert_eq!(kept.tags, ["x", "y"]);
        let mut new = text("a", "three", &[]);
        new.tags = Some(Vec::new());
        store.catalog.create_prompt(&home, &new, at(2)).await.unwrap();
        let first =
            store.catalog.prompt(&home, &name("a"), &VersionSelector::Version(1)).await.unwrap();
        assert_eq!(first.unwrap().tags, Vec::<String>::new());
        let mut chat = text("a", "four", &[]);
        chat.body = PromptBody::Chat(Vec::new());
        let chat = store.catalog.create_prompt(&home, &chat, at(3)).await;
        assert!(matches!(chat, Err(Error::Conflict(_))), "{chat:?}");
        let newest = store.catalog.prompt(&home, &name("a"), &label(LATEST)).await.unwrap();
        assert_eq!(newest.unwrap().version, 3);
    })
    .await;
}

#[tokio::test]
async fn latest_moves_back_when_the_newest_version_goes() {
    on_each_database(|store| async move {
        let home = project("home");
        for text_of in ["one", "two", "three"] {
            let new = text("a", text_of, &["production"]);
            store.catalog.create_prompt(&home, &new, at(0)).await.unwrap();
        }
        let delete = async |which: Option<VersionSelector>| {
            store.catalog.delete_prompt(&home, &name("a"), which.as_ref(), at(1)).await.unwrap()
        };
        assert_eq!(delete(Some(VersionSelector::Version(9))).await, PromptDeletion::NotFound);
        assert_eq!(delete(Some(label("production"))).await, PromptDeletion::Done);
        assert_eq!(labels_of(&store, "a", 2).await, [LATEST]);
        assert_eq!(delete(Some(VersionSelector::Version(1))).await, PromptDeletion::Done);
        assert_eq!(delete(None).await, PromptDeletion::Done);
        assert_eq!(delete(None).await, PromptDeletion::NotFound);
        let again =
            store.catalog.create_prompt(&home, &text("a", "again", &[]), at(2)).await.unwrap();
        assert_eq!(again.version, 1);
    })
    .await;
}

#[tokio::test]
async fn what_others_include_stays() {
    on_each_database(|store| async move {
        let home = project("home");
        for text_of in ["one", "two", "three"] {
            let new = text("part", text_of, &[]);
            store.catalog.create_prompt(&home, &new, at(0)).await.unwrap();
        }
        let include = |what: &str| format!("@@@langfusePrompt:name=part|{what}@@@");
        for (prompt, what) in [("by number", "version=1"), ("by label", "label=latest")] {
            let new = text(prompt, &include(what), &[]);
            store.catalog.create_prompt(&home, &new, at(0)).await.unwrap();
        }
        let delete = async |prompt: &str, which: Option<VersionSelector>| {
            store.catalog.delete_prompt(&home, &name(prompt), which.as_ref(), at(1)).await.unwrap()
        };
        let by_number = PromptDeletion::IncludedBy(vec![("by number".to_owned(), 1)]);
        assert_eq!(delete("part", Some(VersionSelector::Version(1))).await, by_number);
        assert_eq!(
            delete("part", Some(VersionSelector::Version(3))).await,
            PromptDeletion::Done,
            "latest moves"
        );
        assert!(
            matches!(delete("part", None).await, PromptDeletion::IncludedBy(all) if all.len() == 2)
        );
        assert_eq!(delete("by number", None).await, PromptDeletion::Done);
        assert_eq!(delete("part", Some(VersionSelector::Version(1))).await, PromptDeletion::Done);
        assert_eq!(delete("by label", None).await, PromptDeletion::Done);
        assert_eq!(delete("part", None).await, PromptDeletion::Done);
    })
    .await;
}

#[tokio::test]
async fn the_list_has_one_entry_per_prompt_in_an_order_that_new_versions_do_not_change() {
    on_each_database(|store| async move {
        let home = project("home");
        for (n, prompt) in ["first", "second", "third"].into_iter().enumerate() {
            let mut new = text(prompt, "one", &["production"]);
            new.tags = Some(vec![format!("tag {n}")]);
            store.catalog.create_prompt(&home, &new, at(n as i64)).await.unwrap();
        }
        let new = text("first", "two", &["staging"]);
        store.catalog.create_prompt(&home, &new, at(9)).await.unwrap();
        let names = async |query: PromptQuery, paging: Paging| {
            let page = store.catalog.prompts(&home, &query, paging).await.unwrap();
            let names: Vec<String> = page.items.into_iter().map(|prompt| prompt.name).collect();
            (names.join(","), page.n_total)
        };
        let all = Paging::default();
        assert_eq!(names(PromptQuery::default(), all).await, ("third,second,first".to_owned(), 3));
        let second_page = Paging { page: 2, limit: 2 };
        assert_eq!(names(PromptQuery::default(), second_page).await, ("first".to_owned(), 3));
        let page =
            store.catalog.prompts(&home, &PromptQuery::default(), second_page).await.unwrap();
        let first = &page.items[0];
        assert_eq!((first.versions.as_slice(), first.updated_at), (&[1, 2][..], at(9)));
        assert_eq!(first.labels, ["latest", "production", "staging"]);
        let some = |text: &str| Some(text.to_owned());
        let by_name = PromptQuery { name: some("second"), ..PromptQuery::default() };
        assert_eq!(names(by_name, all).await.1, 1);
        let by_label = PromptQuery { label: some("staging"), ..PromptQuery::default() };
        assert_eq!(names(by_label, all).await.0, "first");
        let by_tag = PromptQuery { tag: some("tag 2"), ..PromptQuery::default() };
        assert_eq!(names(by_tag, all).await.0, "third");
        let by_time = PromptQuery { from: Some(at(1)), to: Some(at(9)), ..PromptQuery::default() };
        assert_eq!(names(by_time, all).await.0, "third,second");
        let conditions =
            [json!({ "type": "number", "column": "version", "operator": ">", "value": 1 })];
        let filter = Filter::parse(&conditions, PromptQuery::COLUMNS).unwrap();
        let by_filter = PromptQuery { filter, ..PromptQuery::default() };
        assert_eq!(names(by_filter, all).await.0, "first");
    })
    .await;
}

#[tokio::test]
async fn protected_labels_are_a_list_of_the_project() {
    on_each_database(|store| async move {
        let home = project("home");
        let labels = ["production".to_owned(), "eu".to_owned()];
        store.catalog.protect_labels(&home, &labels).await.unwrap();
        assert_eq!(store.catalog.protected_labels(&home).await.unwrap(), ["eu", "production"]);
        assert!(store.catalog.protected_labels(&project("other")).await.unwrap().is_empty());
        store.catalog.protect_labels(&home, &[]).await.unwrap();
        assert!(store.catalog.protected_labels(&home).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_nul_in_a_query_matches_nothing_on_either_database() {
    on_each_database(|store| async move {
        let home = project("home");
        let new = text("a", "@@@langfusePrompt:name=x\0|version=1@@@", &[]);
        store.catalog.create_prompt(&home, &new, at(0)).await.unwrap();
        let found = store.catalog.prompt(&home, &name("a"), &label("\0")).await;
        assert_eq!(found.unwrap(), None);
        assert_eq!(store.catalog.included_prompt(&home, &new.references[0]).await.unwrap(), None);
        let query = PromptQuery { name: Some("\0".to_owned()), ..PromptQuery::default() };
        let listed = store.catalog.prompts(&home, &query, Paging::default()).await;
        assert_eq!(listed.unwrap().n_total, 0);
    })
    .await;
}
