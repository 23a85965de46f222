//! Plug-ins.

use super::*;
use perpend_db::{Tx, query};

#[tokio::test]
async fn a_plugin_version_refers_to_one_component() {
    on_each_database(|store| async move {
        let home = project("home");
        let one = info("acme/tone", "1.0.0");
        let digest = store.catalog.put_plugin(Some(&home), &one, b"bytes", at(0)).await.unwrap();
        assert_eq!(digest, Digest::of(b"bytes"));
        let again = store.catalog.put_plugin(Some(&home), &one, b"bytes", at(1)).await.unwrap();
        assert_eq!(again, digest);
        let other = store.catalog.put_plugin(Some(&home), &one, b"other", at(2)).await;
        assert!(matches!(other, Err(Error::Conflict(_))), "{other:?}");
        let listed = store.catalog.plugins(&home).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((&listed[0].info, listed[0].created_at), (&one, at(0)));
        assert_eq!(store.catalog.component(&digest).await.unwrap().as_deref(), Some(&b"bytes"[..]));
        assert_eq!(store.catalog.component(&Digest::of(b"other")).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_plugin_is_found_by_name_version_or_digest() {
    on_each_database(|store| async move {
        let home = project("home");
        for version in ["1.2.0", "1.10.0", "1.9.0", "2.0.0-rc.1"] {
            let info = info("acme/tone", version);
            store.catalog.put_plugin(Some(&home), &info, version.as_bytes(), at(0)).await.unwrap();
        }
        let find = async |reference: &str| {
            let found = store.catalog.resolve_plugin(&home, reference).await.unwrap();
            found.map(|plugin| plugin.info.version)
        };
        assert_eq!(find("acme/tone").await.as_deref(), Some("1.10.0"));
        assert_eq!(find("acme/tone@2.0.0-rc.1").await.as_deref(), Some("2.0.0-rc.1"));
        assert_eq!(find("acme/tone@9.0.0").await, None);
        assert_eq!(find("acme/none").await, None);
        let digest = Digest::of(b"1.9.0").to_string();
        assert_eq!(find(&digest).await.as_deref(), Some("1.9.0"));
        assert_eq!(find(&format!("sha256:{digest}")).await.as_deref(), Some("1.9.0"));
    })
    .await;
}

#[tokio::test]
async fn a_plugin_is_seen_by_its_project_and_one_of_the_server_by_all() {
    on_each_database(|store| async move {
        let (home, foreign) = (project("home"), project("foreign"));
        let tone = info("acme/tone", "1.0.0");
        let own = store.catalog.put_plugin(Some(&home), &tone, b"own", at(0)).await.unwrap();
        let text = info("perpend/text", "0.1.0");
        let shared = store.catalog.put_plugin(None, &text, b"shared", at(0)).await.unwrap();
        assert_eq!(store.catalog.plugins(&home).await.unwrap().len(), 2);
        assert_eq!(store.catalog.plugins(&foreign).await.unwrap().len(), 1);
        assert_eq!(store.catalog.plugin(&foreign, &own).await.unwrap(), None);
        assert_eq!(store.catalog.resolve_plugin(&foreign, "acme/tone").await.unwrap(), None);
        assert!(store.catalog.plugin(&foreign, &shared).await.unwrap().is_some());
        let impostor = info("perpend/text", "9.0.0");
        let impostor = store.catalog.put_plugin(Some(&foreign), &impostor, b"trojan", at(1)).await;
        assert!(matches!(impostor, Err(Error::Conflict(_))), "{impostor:?}");
    })
    .await;
}

#[tokio::test]
async fn a_first_party_name_means_a_plugin_of_the_server_only() {
    on_each_database(|store| async move {
        let home = project("home");
        let python = info("perpend/python", "9.0.0");
        let refused = store.catalog.put_plugin(Some(&home), &python, b"trojan", at(0)).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        // A plug-in from before the name was reserved.
        let own = info("acme/python", "9.0.0");
        let trojan = store.catalog.put_plugin(Some(&home), &own, b"trojan", at(0)).await;
        let renamed = serde_json::to_string(&python).unwrap();
        let rename = "UPDATE plugins SET name = 'perpend/python', info = $1 WHERE owner = $2";
        let mut tx = Tx::begin(&store.pool).await.unwrap();
        let rename = query(rename).bind(renamed).bind(home.as_str());
        rename.execute(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        let find = async |reference: &str| {
            let found = store.catalog.resolve_plugin(&home, reference).await.unwrap();
            found.map(|plugin| plugin.digest)
        };
        for reference in ["perpend/python", "perpend/python@9.0.0"] {
            assert_eq!(find(reference).await, None, "{reference}");
        }
        let ours = info("perpend/python", "1.0.0");
        let ours = store.catalog.put_plugin(None, &ours, b"ours", at(1)).await.unwrap();
        assert_eq!(find("perpend/python").await, Some(ours));
        assert_eq!(find("perpend/python@9.0.0").await, None);
        // Evaluators that use it hold its digest, and it can be deleted.
        let trojan = trojan.unwrap();
        assert_eq!(find(&trojan.to_string()).await, Some(trojan));
        store.catalog.delete_plugin(&home, &trojan).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_rebuilt_server_brings_its_own_plugins_and_keeps_the_former_bytes() {
    on_each_database(|store| async move {
        let home = project("home");
        let text = info("perpend/text", "0.1.0");
        let old = store.catalog.put_plugin(None, &text, b"old", at(0)).await.unwrap();
        let new = store.catalog.put_plugin(None, &text, b"new", at(1)).await.unwrap();
        let found =
            store.catalog.resolve_plugin(&home, "perpend/text@0.1.0").await.unwrap().unwrap();
        assert_eq!(found.digest, new);
        assert!(store.catalog.component(&old).await.unwrap().is_some());
        store.catalog.put_plugin(None, &text, b"old", at(2)).await.unwrap();
        let found = store.catalog.resolve_plugin(&home, "perpend/text").await.unwrap().unwrap();
        assert_eq!(found.digest, old);
    })
    .await;
}

#[tokio::test]
async fn a_plugin_that_evaluators_are_made_from_is_not_deleted() {
    on_each_database(|store| async move {
        let home = project("home");
        let tone = info("acme/tone", "1.0.0");
        let digest =
            store.catalog.put_plugin(Some(&home), &tone, b"component", at(0)).await.unwrap();
        let made = evaluator(&store, &home, "mild", at(1)).await;
        let mut other = version("mild-v2");
        other.plugin = store
            .catalog
            .put_plugin(Some(&home), &info("acme/tone", "2.0.0"), b"newer", at(2))
            .await
            .unwrap();
        store.catalog.add_evaluator_version(&home, &made.id, &other, at(3)).await.unwrap();
        let users = store.catalog.plugin_users(&home, &digest).await.unwrap();
        assert_eq!(users.len(), 1);
        assert_eq!((users[0].name.as_str(), &users[0].versions[..]), ("exact", &[1][..]));
        assert!(!users[0].is_current, "its newest version is made from another");
        let newer = store.catalog.plugin_users(&home, &other.plugin).await.unwrap();
        assert!(newer[0].is_current);
        let refused = store.catalog.delete_plugin(&home, &digest).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        assert!(store.catalog.plugin(&home, &digest).await.unwrap().is_some());
        assert!(store.catalog.component(&digest).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_deleted_plugin_is_not_found_in_its_project_and_its_component_stays_for_others() {
    on_each_database(|store| async move {
        let (home, foreign) = (project("home"), project("foreign"));
        let tone = info("acme/tone", "1.0.0");
        let mut digest = Digest::of(b"");
        for owner in [&home, &foreign] {
            digest = store.catalog.put_plugin(Some(owner), &tone, b"bytes", at(0)).await.unwrap();
        }
        store.catalog.delete_plugin(&home, &digest).await.unwrap();
        assert_eq!(store.catalog.plugin(&home, &digest).await.unwrap(), None);
        assert!(store.catalog.plugin(&foreign, &digest).await.unwrap().is_some());
        assert!(store.catalog.component(&digest).await.unwrap().is_some());
        let again = store.catalog.delete_plugin(&home, &digest).await;
        assert!(matches!(again, Err(Error::NotFound)), "{again:?}");
        store.catalog.delete_plugin(&foreign, &digest).await.unwrap();
        assert_eq!(store.catalog.component(&digest).await.unwrap(), None);
        // The name is available again.
        let other = store.catalog.put_plugin(Some(&home), &tone, b"other", at(1)).await;
        assert_eq!(other.unwrap(), Digest::of(b"other"));
    })
    .await;
}

#[tokio::test]
async fn a_plugin_of_the_server_is_not_a_projects_to_delete() {
    on_each_database(|store| async move {
        let home = project("home");
        let text = info("perpend/text", "0.1.0");
        let digest = store.catalog.put_plugin(None, &text, b"text", at(0)).await.unwrap();
        let refused = store.catalog.delete_plugin(&home, &digest).await;
        assert!(matches!(refused, Err(Error::NotFound)), "{refused:?}");
        assert!(store.catalog.plugin(&home, &digest).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn no_version_is_made_from_a_plugin_that_was_deleted_meanwhile() {
    on_each_database(|store| async move {
        let home = project("home");
        let made = evaluator(&store, &home, "mild", at(0)).await;
        let mut gone = version("mild-v2");
        gone.plugin = Digest::of(b"deleted");
        let refused = store.catalog.add_evaluator_version(&home, &made.id, &gone, at(1)).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        let kept = store.catalog.evaluator(&home, &made.id).await.unwrap().unwrap();
        assert_eq!(kept.version.number, 1);
    })
    .await;
}

#[tokio::test]
async fn successors_follow_the_version_that_was_seen_all_of_them_or_none() {
    on_each_database(|store| async move {
        let home = project("home");
        for id in ["a", "b"] {
            evaluator(&store, &home, id, at(0)).await;
        }
        let successor = |id: &str, follows: u32, name: &str| Successor {
            evaluator: evaluator_id(id),
            follows,
            version: version(name),
        };
        assert!(
            store
                .catalog
                .pause_evaluator(&home, &evaluator_id("a"), &pause("it fails"), None)
                .await
                .unwrap()
                .is_new()
        );
        let both = [successor("a", 1, "a-2"), successor("b", 1, "b-2")];
        let made = store.catalog.add_successors(&home, &both, at(1)).await.unwrap();
        assert_eq!(made, [2, 2]);
        let number = async |id: &str| {
            let found = store.catalog.evaluator(&home, &evaluator_id(id)).await.unwrap();
            let found = found.unwrap();
            assert_eq!(found.paused, None);
            found.version.number
        };
        // One of them was changed since: none is added.
        let late = [successor("a", 2, "a-3"), successor("b", 1, "b-3")];
        let refused = store.catalog.add_successors(&home, &late, at(2)).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        assert_eq!((number("a").await, number("b").await), (2, 2));
        let gone = [successor("none", 1, "c-2")];
        let refused = store.catalog.add_successors(&home, &gone, at(2)).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");

        // Of several concurrent ones, one is first.
        let race = (0..4).map(|n| {
            let (store, home) = (store.clone(), home.clone());
            let next = [successor("a", 2, &format!("a-3-{n}"))];
            async move { store.catalog.add_successors(&home, &next, at(3)).await }
        });
        let made = futures_util::future::join_all(race).await;
        let n_made = made.iter().filter(|made| made.is_ok()).count();
        assert_eq!((n_made, number("a").await), (1, 3), "{made:?}");
    })
    .await;
}

#[tokio::test]
async fn the_digests_of_all_components_are_returned() {
    on_each_database(|store| async move {
        let home = project("home");
        assert_eq!(store.catalog.component_digests().await.unwrap(), []);
        let one = info("acme/tone", "1.0.0");
        let put = store.catalog.put_plugin(Some(&home), &one, b"bytes", at(0)).await;
        assert_eq!(store.catalog.component_digests().await.unwrap(), [put.unwrap()]);
    })
    .await;
}
