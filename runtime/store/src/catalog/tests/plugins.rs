//! Plug-ins.

use super::*;

#[tokio::test]
async fn a_plugin_version_stands_for_one_component() {
    on_each_database(|store| async move {
        let home = project("home");
        let one = info("acme/tone", "1.0.0");
        let digest = store
            .put_plugin(Some(&home), &one, b"bytes", at(0))
            .await
            .unwrap();
        assert_eq!(digest, Digest::of(b"bytes"));
        let again = store
            .put_plugin(Some(&home), &one, b"bytes", at(1))
            .await
            .unwrap();
        assert_eq!(again, digest);
        let other = store.put_plugin(Some(&home), &one, b"other", at(2)).await;
        assert!(matches!(other, Err(Error::Conflict(_))), "{other:?}");
        let listed = store.plugins(&home).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((&listed[0].info, listed[0].created_at), (&one, at(0)));
        assert_eq!(
            store.component(&digest).await.unwrap().as_deref(),
            Some(&b"bytes"[..])
        );
        assert_eq!(store.component(&Digest::of(b"other")).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_plugin_is_found_by_name_version_or_digest() {
    on_each_database(|store| async move {
        let home = project("home");
        for version in ["1.2.0", "1.10.0", "1.9.0", "2.0.0-rc.1"] {
            let info = info("acme/tone", version);
            store
                .put_plugin(Some(&home), &info, version.as_bytes(), at(0))
                .await
                .unwrap();
        }
        let find = async |reference: &str| {
            let found = store.resolve_plugin(&home, reference).await.unwrap();
            found.map(|plugin| plugin.info.version)
        };
        assert_eq!(find("acme/tone").await.as_deref(), Some("1.10.0"));
        assert_eq!(
            find("acme/tone@2.0.0-rc.1").await.as_deref(),
            Some("2.0.0-rc.1")
        );
        assert_eq!(find("acme/tone@9.0.0").await, None);
        assert_eq!(find("acme/none").await, None);
        let digest = Digest::of(b"1.9.0").to_string();
        assert_eq!(find(&digest).await.as_deref(), Some("1.9.0"));
        assert_eq!(
            find(&format!("sha256:{digest}")).await.as_deref(),
            Some("1.9.0")
        );
    })
    .await;
}

#[tokio::test]
async fn a_plugin_is_seen_by_its_project_and_one_of_the_server_by_all() {
    on_each_database(|store| async move {
        let (home, foreign) = (project("home"), project("foreign"));
        let tone = info("acme/tone", "1.0.0");
        let own = store
            .put_plugin(Some(&home), &tone, b"own", at(0))
            .await
            .unwrap();
        let text = info("assay/text", "0.1.0");
        let shared = store
            .put_plugin(None, &text, b"shared", at(0))
            .await
            .unwrap();
        assert_eq!(store.plugins(&home).await.unwrap().len(), 2);
        assert_eq!(store.plugins(&foreign).await.unwrap().len(), 1);
        assert_eq!(store.plugin(&foreign, &own).await.unwrap(), None);
        assert_eq!(
            store.resolve_plugin(&foreign, "acme/tone").await.unwrap(),
            None
        );
        assert!(store.plugin(&foreign, &shared).await.unwrap().is_some());
        let impostor = info("assay/text", "9.0.0");
        let impostor = store
            .put_plugin(Some(&foreign), &impostor, b"trojan", at(1))
            .await;
        assert!(matches!(impostor, Err(Error::Conflict(_))), "{impostor:?}");
    })
    .await;
}

#[tokio::test]
async fn a_rebuilt_server_brings_its_own_plugins_and_keeps_the_former_bytes() {
    on_each_database(|store| async move {
        let home = project("home");
        let text = info("assay/text", "0.1.0");
        let old = store.put_plugin(None, &text, b"old", at(0)).await.unwrap();
        let new = store.put_plugin(None, &text, b"new", at(1)).await.unwrap();
        let found = store
            .resolve_plugin(&home, "assay/text@0.1.0")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.digest, new);
        assert!(store.component(&old).await.unwrap().is_some());
        store.put_plugin(None, &text, b"old", at(2)).await.unwrap();
        let found = store
            .resolve_plugin(&home, "assay/text")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.digest, old);
    })
    .await;
}
