//! Guarantees of stored media, on each database.

use super::*;
use crate::testing::Store;
use crate::testing::{OpenStore as _, TempDatabase, on_each_database};
use perpend_db::Engine;

fn home() -> ProjectId {
    ProjectId::new("home").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

fn new(place: MediaOwner) -> NewMedia {
    NewMedia {
        id: "abcdefghijklmnopqrstuv".to_owned(),
        sha256: [7; 32],
        content_type: "image/png".to_owned(),
        content_length: 5,
        place,
        field: "input".to_owned(),
    }
}

#[tokio::test]
async fn a_medium_is_readable_when_its_bytes_are_there_and_not_before() {
    on_each_database(|store| async move {
        let telemetry = &store.telemetry;
        let in_trace = new(MediaOwner::Trace("t".to_owned(), None));
        let announced = telemetry.announce_media(&home(), &in_trace, at(0)).await;
        assert!(!announced.unwrap());
        let medium = telemetry.medium(&home(), &in_trace.id).await.unwrap().unwrap();
        assert_eq!((medium.uploaded_at, medium.content_length), (None, 5));
        assert_eq!(telemetry.media_bytes(&home(), &in_trace.id).await.unwrap(), None);
        let report = UploadReport { http_status: 200, http_error: None, time_ms: Some(3) };
        telemetry.report_upload(&home(), &in_trace.id, &report).await.unwrap();
        let medium = telemetry.medium(&home(), &in_trace.id).await.unwrap().unwrap();
        assert_eq!(medium.uploaded_at, None, "a report brings no bytes");
        for n in [1, 2] {
            let stored = telemetry.store_media(&home(), &medium, b"bytes", at(n)).await;
            stored.unwrap();
        }
        let medium = telemetry.medium(&home(), &in_trace.id).await.unwrap().unwrap();
        assert_eq!(medium.uploaded_at, Some(at(1)));
        assert_eq!(
            telemetry.media_bytes(&home(), &medium.id).await.unwrap().as_deref(),
            Some(&b"bytes"[..])
        );
        let in_item = new(MediaOwner::Item("d".to_owned(), "i".to_owned()));
        assert!(
            telemetry.announce_media(&home(), &in_item, at(3)).await.unwrap(),
            "the bytes are there"
        );
        let foreign = ProjectId::new("foreign").unwrap();
        assert_eq!(telemetry.medium(&foreign, &medium.id).await.unwrap(), None);
        assert_eq!(telemetry.media_bytes(&foreign, &medium.id).await.unwrap(), None);
        assert!(!telemetry.announce_media(&foreign, &in_item, at(3)).await.unwrap());
        for id in ["unknown", "\0"] {
            let unknown = telemetry.report_upload(&home(), id, &report).await;
            assert!(matches!(unknown, Err(Error::NotFound)), "{unknown:?}");
            assert_eq!(telemetry.media_bytes(&home(), id).await.unwrap(), None);
        }
    })
    .await;
}

const DAY: i64 = 86_400;

/// A medium whose bytes arrived at time zero.
async fn stored(store: &Store) -> NewMedia {
    let new = new(MediaOwner::Trace("t".to_owned(), None));
    store.telemetry.announce_media(&home(), &new, at(0)).await.unwrap();
    let medium = store.telemetry.medium(&home(), &new.id).await.unwrap().unwrap();
    store.telemetry.store_media(&home(), &medium, b"bytes", at(0)).await.unwrap();
    new
}

/// Removes the links, and then deletes unlinked media older than day 30.
async fn expire_unlinked(store: &Store) {
    for sql in ["DELETE FROM media_links", "DELETE FROM media_item_links"] {
        store.pool.change(sql, &[]).await.unwrap();
    }
    store.telemetry.expire(&home(), at(30 * DAY)).await.unwrap();
}

#[tokio::test]
async fn a_medium_is_as_old_as_the_last_time_it_was_linked() {
    on_each_database(|store| async move {
        let new = stored(&store).await;
        let is_there = store.telemetry.announce_media(&home(), &new, at(31 * DAY)).await;
        assert!(is_there.unwrap());
        expire_unlinked(&store).await;
        let medium = store.telemetry.medium(&home(), &new.id).await.unwrap().unwrap();
        assert_eq!((medium.uploaded_at, medium.content_length), (Some(at(0)), 5));
        let bytes = store.telemetry.media_bytes(&home(), &new.id).await.unwrap();
        assert_eq!(bytes.as_deref(), Some(&b"bytes"[..]));
    })
    .await;
    on_each_database(|store| async move {
        let new = stored(&store).await;
        expire_unlinked(&store).await;
        assert_eq!(store.telemetry.medium(&home(), &new.id).await.unwrap(), None);
        assert_eq!(store.telemetry.media_bytes(&home(), &new.id).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_medium_linked_during_its_deletion_stays() {
    for database in TempDatabase::each().await {
        let store = database.open().await;
        // SQLite has one writer: one of the two transactions waits for the other from the start.
        let Engine::Postgres(pool) = store.pool.engine() else {
            store.close().await;
            continue;
        };
        let new = stored(&store).await;
        store.pool.change("DELETE FROM media_links", &[]).await.unwrap();

        let mut linking = pool.begin().await.unwrap();
        for (sql, values) in [(ANNOUNCE, 6), (RENEW, 3)] {
            let query = sqlx::query(sql).bind("home").bind(&new.id);
            let query = match values {
                6 => query
                    .bind(new.sha256.as_slice())
                    .bind(&new.content_type)
                    .bind(new.content_length),
                _ => query,
            };
            let query = query.bind(at(31 * DAY).as_micros());
            query.execute(&mut *linking).await.unwrap();
        }
        let sweeping = store.clone();
        let sweep =
            tokio::spawn(async move { sweeping.telemetry.expire(&home(), at(30 * DAY)).await });
        let waiting = "SELECT COUNT(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while 0 == sqlx::query_scalar::<_, i64>(waiting).fetch_one(pool).await.unwrap() {}
        linking.commit().await.unwrap();
        sweep.await.unwrap().unwrap();
        let bytes = store.telemetry.media_bytes(&home(), &new.id).await.unwrap();
        assert_eq!(bytes.as_deref(), Some(&b"bytes"[..]));
        let medium = store.telemetry.medium(&home(), &new.id).await.unwrap().unwrap();
        assert_eq!(medium.uploaded_at, Some(at(0)));
        store.close().await;
    }
}
