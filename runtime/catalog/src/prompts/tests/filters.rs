//! Filters of prompt lists: a parameter, which is tested in SQL, returns the same as a condition, which is
//! tested in memory.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::Value;

use super::*;
use crate::testing::Store;
use crate::testing::{OpenStore as _, TempDatabase};

const N_SETS: usize = 4;
const N_ASKED: usize = 25;
const NAMES: [&str; 5] = ["a", "A", "a/b", "b%_", "字"];
const LABELS: [&str; 3] = ["production", "staging", "a-b.c"];
const TAGS: [&str; 3] = ["x", "x y", "X"];

/// Parameters of one list.
#[derive(Clone, Debug)]
struct ListParams {
    name: Option<&'static str>,
    label: Option<&'static str>,
    tag: Option<&'static str>,
    from: Option<i64>,
    to: Option<i64>,
}

fn any_of(values: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> {
    prop::option::of(prop::sample::select(values))
}

fn list_params() -> impl Strategy<Value = ListParams> {
    let time = || prop::option::of(0..20_i64);
    let texts = (any_of(&NAMES), any_of(&LABELS), any_of(&TAGS));
    (texts, time(), time()).prop_map(|((name, label, tag), from, to)| ListParams {
        name,
        label,
        tag,
        from,
        to,
    })
}

impl ListParams {
    fn by_parameters(&self) -> PromptQuery {
        let text = |text: Option<&str>| text.map(str::to_owned);
        PromptQuery {
            name: text(self.name),
            label: text(self.label),
            tag: text(self.tag),
            from: self.from.map(at),
            to: self.to.map(at),
            filter: Filter::default(),
        }
    }

    fn by_conditions(&self) -> PromptQuery {
        let mut conditions: Vec<Value> = Vec::new();
        let mut put = |kind: &str, column: &str, operator: &str, value: Option<Value>| {
            conditions.extend(value.map(|value| {
                json!({ "type": kind, "column": column, "operator": operator, "value": value })
            }));
        };
        let list = |text: Option<&str>| text.map(|text| json!([text]));
        put("stringOptions", "name", "any of", list(self.name));
        put("arrayOptions", "labels", "any of", list(self.label));
        put("arrayOptions", "tags", "all of", list(self.tag));
        let time = |seconds: Option<i64>| seconds.map(|seconds| json!(at(seconds)));
        put("datetime", "updatedAt", ">=", time(self.from));
        put("datetime", "updatedAt", "<", time(self.to));
        PromptQuery {
            filter: Filter::parse(&conditions, PromptQuery::COLUMNS).unwrap(),
            ..PromptQuery::default()
        }
    }
}

/// A version: its prompt, its label, the tags of its prompt from then on.
type NewVersionCase = (usize, Option<&'static str>, Vec<&'static str>);

fn versions() -> impl Strategy<Value = Vec<NewVersionCase>> {
    let tags = prop::sample::subsequence(TAGS.to_vec(), 0..=TAGS.len());
    prop::collection::vec((0..NAMES.len(), any_of(&LABELS), tags), 1..20)
}

/// Creates the prompts of one case in a project of their own.
async fn populate(store: &Store, n: usize, versions: &[NewVersionCase]) -> ProjectId {
    let home = project(&format!("home {n}"));
    for (second, (prompt, label, tags)) in (0..).zip(versions) {
        let labels: Vec<&str> = label.iter().copied().collect();
        let new = NewPrompt {
            id: format!("{n} {second}"),
            tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()),
            ..text(NAMES[*prompt], "body", &labels)
        };
        store.catalog.create_prompt(&home, &new, at(second)).await.unwrap();
    }
    home
}

/// Names in the order of the list, over all pages, and the reported total.
async fn listed(store: &Store, home: &ProjectId, query: &PromptQuery) -> (Vec<String>, u64) {
    let mut names = Vec::new();
    for page in 1.. {
        let paging = Paging { page, limit: 2 };
        let found = store.catalog.prompts(home, query, paging).await.unwrap();
        names.extend(found.items.iter().map(|prompt| prompt.name.clone()));
        if found.items.is_empty() {
            return (names, found.n_total);
        }
    }
    unreachable!("the last page is empty")
}

#[tokio::test]
async fn a_parameter_in_sql_equals_its_condition_in_memory() {
    let mut runner = TestRunner::deterministic();
    for database in TempDatabase::each().await {
        let store = database.open().await;
        for n in 0..N_SETS {
            let versions = versions().new_tree(&mut runner).unwrap().current();
            let home = populate(&store, n, &versions).await;
            for _ in 0..N_ASKED {
                let list_params = list_params().new_tree(&mut runner).unwrap().current();
                let in_sql = listed(&store, &home, &list_params.by_parameters()).await;
                let in_memory = listed(&store, &home, &list_params.by_conditions()).await;
                assert_eq!(in_sql, in_memory, "{list_params:?} of {versions:?}");
                assert_eq!(in_sql.0.len() as u64, in_sql.1, "{list_params:?}");
            }
        }
        store.close().await;
    }
}
