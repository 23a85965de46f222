//! Skills on each database.

use serde_json::json;

use super::*;
use crate::testing::Store;
use crate::testing::on_each_database;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn new(name: &str, id: &str, text: &str) -> NewSkill {
    NewSkill {
        id: id.to_owned(),
        name: name.to_owned(),
        description: format!("Does {text}"),
        frontmatter: json!({ "name": name, "n": 1.5 }),
        files: vec![SkillFile {
            id: "f".to_owned(),
            path: "SKILL.md".to_owned(),
            sha256: format!("hash of {text}"),
            size: 7,
        }],
        contents: vec![(format!("hash of {text}"), text.to_owned())],
        commit_message: None,
        created_by: "API".to_owned(),
    }
}

fn projects() -> (ProjectId, ProjectId) {
    (ProjectId::new("a").unwrap(), ProjectId::new("b").unwrap())
}

async fn get(store: &Store, project: &ProjectId, which: &str) -> Option<(i64, Vec<String>)> {
    let which = match which.parse() {
        Ok(version) => VersionSelector::Version(version),
        Err(_) => VersionSelector::Label(which.to_owned()),
    };
    let found = store.catalog.skill(project, "pdf", &which).await.unwrap();
    found.map(|skill| (skill.version, skill.labels))
}

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|one| (*one).to_owned()).collect()
}

#[tokio::test]
async fn versions_count_up_labels_move_and_latest_is_the_newest_there_is() {
    on_each_database(|store| async move {
        let (ours, theirs) = projects();
        for (version, text) in [(1, "one"), (2, "two"), (3, "one")] {
            let new = new("pdf", text, text);
            let made = store
                .catalog
                .create_skill(&ours, &new, at(version))
                .await
                .unwrap();
            assert_eq!((made.version, made.labels), (version, strings(&["latest"])));
        }
        assert_eq!(get(&store, &ours, "1").await, Some((1, Vec::new())));
        assert_eq!(get(&store, &ours, "production").await, None);
        assert_eq!(get(&store, &theirs, "latest").await, None);
        let label = |version, labels: &[&str], millis| {
            let (store, ours, labels) = (store.clone(), ours.clone(), strings(labels));
            async move {
                store
                    .catalog
                    .label_skill(&ours, "pdf", version, &labels, at(millis))
                    .await
            }
        };
        label(1, &["production", "eu"], 5).await.unwrap();
        let moved = label(3, &["production"], 6).await.unwrap();
        assert_eq!(moved.labels, ["latest", "production"]);
        assert_eq!(get(&store, &ours, "1").await, Some((1, strings(&["eu"]))));
        let robbed = store
            .catalog
            .skill(&ours, "pdf", &VersionSelector::Version(1))
            .await
            .unwrap();
        assert_eq!(robbed.unwrap().updated_at, at(6));
        label(1, &[], 7).await.unwrap();
        assert_eq!(get(&store, &ours, "eu").await, None);
        assert!(matches!(label(9, &[], 7).await, Err(Error::NotFound)));

        let foreign = store.catalog.delete_skill(&theirs, "pdf", 3, at(8)).await;
        assert!(matches!(foreign, Err(Error::NotFound)), "{foreign:?}");
        store
            .catalog
            .delete_skill(&ours, "pdf", 3, at(8))
            .await
            .unwrap();
        assert_eq!(
            get(&store, &ours, "latest").await,
            Some((2, strings(&["latest"])))
        );
        assert_eq!(get(&store, &ours, "production").await, None);
        let made = store
            .catalog
            .create_skill(&ours, &new("pdf", "four", "x"), at(9))
            .await;
        assert_eq!(made.unwrap().version, 4, "a number is not used twice");
        for version in [1, 2, 4] {
            store
                .catalog
                .delete_skill(&ours, "pdf", version, at(10))
                .await
                .unwrap();
        }
        let all = SkillQuery::default();
        let list = store.catalog.skills(&ours, &all, Paging::default()).await;
        assert_eq!(list.unwrap(), NumberedPage::empty());
    })
    .await;
}

#[tokio::test]
async fn texts_are_kept_once_per_project_and_outlive_their_versions() {
    on_each_database(|store| async move {
        let (ours, theirs) = projects();
        for id in ["v1", "v2"] {
            let made = store.catalog.create_skill(&ours, &new("pdf", id, "text"), at(1)).await;
            assert_eq!(made.unwrap().files[0].size, 7);
        }
        let hashes = strings(&["hash of text", "hash of nothing"]);
        let read = |project: ProjectId| {
            let (store, hashes) = (store.clone(), hashes.clone());
            async move { store.catalog.skill_contents(&project, &hashes).await.unwrap() }
        };
        for version in [1, 2] {
            let found = read(ours.clone()).await;
            assert_eq!(found, [("hash of text".to_owned(), "text".to_owned())]);
            store.catalog.delete_skill(&ours, "pdf", version, at(2)).await.unwrap();
        }
        assert_eq!(read(ours.clone()).await.len(), 1);
        assert!(read(theirs).await.is_empty());
    })
    .await;
}

/// Queries for the list, with the names of the matches.
fn queries() -> Vec<(SkillQuery, Vec<&'static str>)> {
    let some = |text: &str| Some(text.to_owned());
    let all = SkillQuery::default();
    vec![
        (all.clone(), vec!["web", "pdf"]),
        (SkillQuery { name: some("pdf"), ..all.clone() }, vec!["pdf"]),
        (SkillQuery { search: some("PAGE"), ..all.clone() }, vec!["web"]),
        (SkillQuery { search: some("forms"), ..all.clone() }, vec![]),
        (SkillQuery { tag: some("office"), ..all.clone() }, vec!["pdf"]),
        (SkillQuery { from: Some(at(3)), ..all.clone() }, vec!["pdf"]),
        (SkillQuery { to: Some(at(3)), ..all.clone() }, vec!["web"]),
    ]
}

#[tokio::test]
async fn the_list_has_the_newest_version_of_each_matching_skill() {
    on_each_database(|store| async move {
        let (ours, theirs) = projects();
        for (name, text, millis) in [("pdf", "forms", 1), ("web", "Pages", 2), ("pdf", "tables", 3)]
        {
            let new = new(name, text, text);
            let made = store.catalog.create_skill(&ours, &new, at(millis)).await;
            made.unwrap();
        }
        let tags = strings(&["office"]);
        let tagged = store.catalog.tag_skill(&ours, "pdf", &tags, at(4)).await.unwrap();
        assert_eq!((tagged.version, &tagged.tags), (2, &tags));
        let missing = store.catalog.tag_skill(&theirs, "pdf", &tags, at(4)).await;
        assert!(matches!(missing, Err(Error::NotFound)), "{missing:?}");
        store.catalog.label_skill(&ours, "pdf", 1, &strings(&["production"]), at(5)).await.unwrap();
        let names = |query: SkillQuery| {
            let (store, ours) = (store.clone(), ours.clone());
            async move {
                let found = store.catalog.skills(&ours, &query, Paging::default()).await.unwrap();
                found.items.into_iter().map(|skill| skill.name).collect::<Vec<_>>()
            }
        };
        for (query, expected) in queries() {
            assert_eq!(names(query.clone()).await, expected, "{query:?}");
        }
        let page = Paging { page: 2, limit: 1 };
        let second = store.catalog.skills(&ours, &SkillQuery::default(), page).await.unwrap();
        assert_eq!(second.n_total, 2);
        let pdf = &second.items[0];
        assert_eq!((pdf.latest, pdf.production), (2, Some(1)));
        assert_eq!((pdf.created_at, pdf.updated_at), (at(3), at(3)));
        assert_eq!(pdf.description, "Does tables");
    })
    .await;
}
