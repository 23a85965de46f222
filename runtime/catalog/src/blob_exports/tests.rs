//! Guarantees of exports, on each database.

use perpend_domain::ids::PublicKey;

use super::*;
use crate::testing::Store;
use crate::testing::on_each_database;
use crate::{Init, NewApiKey, Rights, SecretHash};

const HOUR: i64 = 3_600_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + millis)
}

fn project(n: u8) -> ProjectId {
    ProjectId::new(&format!("project-{n}")).unwrap()
}

fn organization(n: u8) -> OrganizationId {
    OrganizationId::new(&format!("org-{n}")).unwrap()
}

/// Two organizations with one project each.
async fn start(store: &Store) {
    for n in [1, 2] {
        let init = Init {
            organization_id: organization(n),
            organization_name: format!("Organization {n}"),
            project_id: project(n),
            project_name: "Support bot".to_owned(),
            key: NewApiKey {
                id: format!("key-{n}"),
                public_key: PublicKey::new(&format!("pk-{n}")).unwrap(),
                secret_hash: SecretHash::new("secret", [n; 16]),
                secret_hint: String::new(),
                rights: Rights::Full,
                note: None,
                expires_at: None,
            },
        };
        store.catalog.create_first_project(&init, at(0)).await.unwrap();
    }
}

fn export(n: u8, next: Timestamp) -> BlobExport {
    BlobExport {
        project: project(n),
        id: format!("export-{n}"),
        settings: ExportSettings {
            kind: BucketKind::S3Compatible,
            bucket: "bucket".to_owned(),
            endpoint: Some("http://minio:9000".to_owned()),
            region: "auto".to_owned(),
            access_key_id: Some("key".to_owned()),
            prefix: "a/".to_owned(),
            frequency: Frequency::Every20Minutes,
            force_path_style: true,
            file_type: FileType::Jsonl,
            mode: ExportMode::FullHistory,
            start: None,
            is_compressed: true,
            source: ExportSource::Older,
            field_groups: Vec::new(),
        },
        secret: vec![0, 255],
        is_enabled: true,
        state: ExportState { next_sync_at: Some(next), ..ExportState::default() },
        created_at: at(0),
        updated_at: at(0),
    }
}

fn lease(n: u8, fence: i64) -> ExportLease {
    ExportLease { project: project(n), fence }
}

#[tokio::test]
async fn an_export_has_one_writer_and_continues_where_it_was_interrupted() {
    on_each_database(|store| async move {
        start(&store).await;
        store.catalog.put_blob_export(&export(1, at(0))).await.unwrap();
        store.catalog.put_blob_export(&export(2, at(HOUR))).await.unwrap();
        let claim = async |fence, now: i64| {
            let until = at(now + 1_000);
            store.catalog.claim_blob_export(fence, until, at(now)).await.unwrap()
        };
        assert_eq!(claim(7, 0).await.unwrap().project, project(1));
        assert_eq!(claim(8, 500).await, None, "leased, and the other is not due");

        let place = ExportPlace {
            n_tables: 1,
            n_files: 2,
            after: Some(ChangeCursor {
                at: Timestamp::from_micros(at(-5).as_micros() + 321),
                key: "9".to_owned(),
            }),
        };
        let advance = async |fence| {
            let lease = lease(1, fence);
            let advanced = store.catalog.advance_blob_export(&lease, at(1_000), at(-1), &place);
            advanced.await.unwrap()
        };
        assert!(advance(7).await);
        let again = claim(9, 1_000).await.unwrap();
        assert_eq!((again.state.place, again.state.window_end), (place.clone(), Some(at(-1))));
        assert!(!advance(7).await, "a slow writer has lost it");
        let finish = async |fence| {
            let lease = lease(1, fence);
            let done = store.catalog.finish_blob_export(&lease, Some(at(-1)), at(HOUR));
            done.await.unwrap()
        };
        assert!(!finish(7).await);
        assert!(finish(9).await);
        let stored = store.catalog.blob_export(&project(1)).await.unwrap().unwrap();
        let state = ExportState {
            next_sync_at: Some(at(HOUR)),
            last_sync_at: Some(at(-1)),
            ..ExportState::default()
        };
        assert_eq!(stored.state, state);
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_kept_until_a_success_and_new_settings_take_the_export_away() {
    on_each_database(|store| async move {
        start(&store).await;
        store.catalog.put_blob_export(&export(1, at(0))).await.unwrap();
        let claim = async |fence, now: i64| {
            let until = at(now + 1_000);
            store.catalog.claim_blob_export(fence, until, at(now)).await.unwrap()
        };
        claim(1, 0).await.unwrap();
        let held = lease(1, 1);
        let failed = store.catalog.fail_blob_export(&held, "no such bucket", at(1), at(60_000));
        failed.await.unwrap();
        assert_eq!(claim(2, 1_000).await, None, "not before its time");
        let again = claim(3, 60_000).await.unwrap();
        assert_eq!(again.state.last_error.as_deref(), Some("no such bucket"));
        assert_eq!((again.state.n_failures, again.state.last_error_at), (1, Some(at(1))));

        let mut changed = export(1, at(60_000));
        changed.id = "another".to_owned();
        changed.created_at = at(5);
        store.catalog.put_blob_export(&changed).await.unwrap();
        let lost = store.catalog.finish_blob_export(&lease(1, 3), None, at(HOUR)).await;
        assert!(!lost.unwrap());
        let stored = store.catalog.blob_export(&project(1)).await.unwrap().unwrap();
        assert_eq!((stored.id.as_str(), stored.created_at), ("export-1", at(0)));
        assert_eq!(stored.state.last_error, None);

        claim(4, 60_000).await.unwrap();
        store.catalog.release_blob_export(&lease(1, 4), None).await.unwrap();
        assert!(claim(5, 60_000).await.is_some(), "given back");

        store.catalog.put_blob_export(&export(2, at(60_001))).await.unwrap();
        let behind = Some(at(60_002));
        store.catalog.release_blob_export(&lease(1, 5), behind).await.unwrap();
        let turn = claim(6, 60_002).await.unwrap();
        assert_eq!(turn.project, project(2), "the waiting project is first");
    })
    .await;
}

#[tokio::test]
async fn exports_belong_to_an_organization_and_go_with_their_project() {
    on_each_database(|store| async move {
        start(&store).await;
        store.catalog.put_blob_export(&export(1, at(0))).await.unwrap();
        store.catalog.put_blob_export(&export(2, at(0))).await.unwrap();
        let (ours, theirs) = (organization(1), organization(2));
        let list = store.catalog.organization_blob_exports(&ours).await.unwrap();
        assert_eq!(list, [export(1, at(0))]);
        let found = store.catalog.organization_blob_export(&theirs, "export-1").await;
        assert_eq!(found.unwrap(), None);
        assert!(store.catalog.delete_blob_export(&project(2), "export-1").await.is_err());

        store.catalog.delete_project(&ours, &project(1), at(1)).await.unwrap();
        assert!(store.catalog.organization_blob_exports(&ours).await.unwrap().is_empty());
        let claimed = store.catalog.claim_blob_export(1, at(9), at(2)).await.unwrap();
        assert_eq!(claimed.unwrap().project, project(2));
        assert_eq!(store.catalog.claim_blob_export(2, at(9), at(2)).await.unwrap(), None);
        store.catalog.delete_blob_export(&project(2), "export-2").await.unwrap();
        assert_eq!(store.catalog.blob_export(&project(2)).await.unwrap(), None);
    })
    .await;
}
