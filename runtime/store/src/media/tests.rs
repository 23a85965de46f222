//! What stored media promise, on each database.

use super::*;
use crate::testing::on_each_database;

fn home() -> ProjectId {
    ProjectId::new("home").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

fn new(place: MediaPlace) -> NewMedia {
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
        let in_trace = new(MediaPlace::Trace("t".to_owned(), None));
        assert!(
            !store
                .announce_media(&home(), &in_trace, at(0))
                .await
                .unwrap()
        );
        let medium = store.medium(&home(), &in_trace.id).await.unwrap().unwrap();
        assert_eq!((medium.uploaded_at, medium.content_length), (None, 5));
        assert_eq!(
            store.media_bytes(&home(), &in_trace.id).await.unwrap(),
            None
        );
        let report = UploadReport {
            http_status: 200,
            http_error: None,
            time_ms: Some(3),
        };
        store
            .report_upload(&home(), &in_trace.id, &report)
            .await
            .unwrap();
        let medium = store.medium(&home(), &in_trace.id).await.unwrap().unwrap();
        assert_eq!(medium.uploaded_at, None, "a report brings no bytes");
        store
            .store_media(&home(), &medium, b"bytes", at(1))
            .await
            .unwrap();
        store
            .store_media(&home(), &medium, b"bytes", at(2))
            .await
            .unwrap();
        let medium = store.medium(&home(), &in_trace.id).await.unwrap().unwrap();
        assert_eq!(medium.uploaded_at, Some(at(1)));
        assert_eq!(
            store
                .media_bytes(&home(), &medium.id)
                .await
                .unwrap()
                .as_deref(),
            Some(&b"bytes"[..])
        );
        let in_item = new(MediaPlace::Item("d".to_owned(), "i".to_owned()));
        assert!(
            store
                .announce_media(&home(), &in_item, at(3))
                .await
                .unwrap(),
            "the bytes are there"
        );
        let foreign = ProjectId::new("foreign").unwrap();
        assert_eq!(store.medium(&foreign, &medium.id).await.unwrap(), None);
        assert_eq!(store.media_bytes(&foreign, &medium.id).await.unwrap(), None);
        assert!(
            !store
                .announce_media(&foreign, &in_item, at(3))
                .await
                .unwrap()
        );
        for id in ["unknown", "\0"] {
            let unknown = store.report_upload(&home(), id, &report).await;
            assert!(matches!(unknown, Err(Error::NotFound)), "{unknown:?}");
            assert_eq!(store.media_bytes(&home(), id).await.unwrap(), None);
        }
    })
    .await;
}
