//! The longest texts that input validation accepts, as keys of every index.

use perpend_domain::ids::{MAX_ID_BYTES, MAX_ID_CHARS};
use perpend_domain::patch::{Patch, PatchSubject};
use perpend_domain::pricing::PriceTable;

use super::*;
use perpend_domain::telemetry::EventBatch;

/// As many characters of three bytes that compression does not make shorter.
fn noise(seed: u32, n_chars: usize) -> String {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        char::from_u32(0x4e00 + state % 20_000).unwrap()
    };
    (0..n_chars).map(|_| next()).collect()
}

fn long_id(seed: u32) -> String {
    noise(seed, MAX_ID_BYTES / 3)
}

#[test]
fn an_id_has_a_longest_number_of_characters_and_of_bytes() {
    assert!(TraceId::new(&"x".repeat(MAX_ID_CHARS)).is_ok());
    assert!(TraceId::new(&"x".repeat(MAX_ID_CHARS + 1)).is_err());
    assert!(TraceId::to_store(&long_id(1)).is_ok());
    assert!(TraceId::to_store(&(long_id(1) + "x")).is_err());
    assert!(TraceId::to_store(&"x".repeat(MAX_ID_CHARS + 1)).is_err());
}

#[tokio::test]
async fn ids_that_older_versions_stored_are_read() {
    on_each_database(|store| async move {
        let p = project("p1");
        let mut own = span(1, 1, None);
        own.trace_id = TraceId::new(&"字".repeat(500)).unwrap();
        own.id = ObservationId::new(&"号".repeat(500)).unwrap();
        let batch = batch(vec![own.clone()]);
        store.telemetry.write_batch(&p, batch, at(1)).await.unwrap();
        let read = store.telemetry.observation(&p, &own.id).await.unwrap().unwrap();
        assert_eq!(read.observation.trace_id, own.trace_id);
        let trace = store.telemetry.trace(&p, &own.trace_id, false).await.unwrap();
        assert!(trace.is_some());
        let read = store.telemetry.trace_observations(&p, &own.trace_id, true).await;
        assert_eq!(read.unwrap()[0].observation, own);
    })
    .await;
}

#[tokio::test]
async fn the_longest_ids_and_names_fit_into_the_keys_of_every_database() {
    on_each_database(|store| async move {
        let p = project("0190a6f2-7c4e-7cc1-b1a4-3a9d8f0f6a11");
        let fact = |seed: u32| Some(noise(seed, 800));
        let mut own = span(1, 1, None);
        own.trace_id = TraceId::new(&long_id(1)).unwrap();
        own.id = ObservationId::new(&long_id(2)).unwrap();
        own.name = long_id(3);
        own.environment = "e".repeat(40);
        own.user_id = Some(long_id(4));
        own.session_id = Some(long_id(5));
        (own.model, own.version, own.release) = (fact(6), fact(7), fact(8));
        own.kind = ObservationKind::Generation;
        let medium = Media {
            id: "m".repeat(22),
            sha256: [7; 32],
            content_type: "image/png".to_owned(),
            bytes: vec![1, 2, 3],
            trace_id: own.trace_id.clone(),
            observation_id: own.id.clone(),
            field: "metadata",
        };
        let score = score(&long_id(9), Subject::Session(long_id(5)), &long_id(10), 1.0);
        let of_observation = NewScore {
            id: ScoreId::new(&long_id(11)).unwrap(),
            subject: Subject::Observation(own.trace_id.clone(), own.id.clone()),
            ..score.clone()
        };
        let mut written = batch(vec![own.clone()]);
        written.media = vec![medium.clone()];
        written.scores = vec![score, of_observation];
        store.telemetry.write_batch(&p, written, at(0)).await.unwrap();
        let found = &all(&store, &p).await[0].observation;
        assert_eq!(*found, own);

        let about = PatchSubject::Observation(ObservationId::new(&long_id(12)).unwrap());
        let mut part = Patch::new(long_id(13), at(0), false, about);
        part.trace_id = Some(own.trace_id.clone());
        (part.name, part.model) = (Some(long_id(14)), fact(15));
        let batch = EventBatch { patches: vec![part], media: vec![medium], scores: Vec::new() };
        let prices = PriceTable::default();
        store.telemetry.write_events(&p, batch, &prices, at(1)).await.unwrap();
        assert_eq!(all(&store, &p).await.len(), 2);
        store.telemetry.traces(&p, &TraceQuery::default()).await.unwrap();
        store.telemetry.delete_traces(&p, &[own.trace_id]).await.unwrap();
        assert_eq!(all(&store, &p).await.len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_name_and_an_id_fit_together_and_a_short_id_leaves_the_name_more_room() {
    const MAX_BYTES: usize = 2_400;
    on_each_database(|store| async move {
        let p = project("p1");
        let mut own = span(1, 1, None);
        own.name = noise(1, (MAX_BYTES - own.id.as_str().len()) / 3);
        own.environment = "e".repeat(40);
        own.trace.get_or_insert_default().name = Some(noise(2, MAX_BYTES / 3));
        let written = batch(vec![own.clone()]);
        store.telemetry.write_batch(&p, written, at(0)).await.unwrap();
        assert_eq!(all(&store, &p).await[0].observation.name, own.name);
        let trace = store.telemetry.trace(&p, &own.trace_id, false).await.unwrap();
        assert_eq!(trace.unwrap().trace.name, Some(noise(2, MAX_BYTES / 3)));
    })
    .await;
}

#[tokio::test]
async fn texts_too_long_for_an_index_are_reported_as_such() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let store = database.open().await;
    let mut own = span(1, 1, None);
    own.name = noise(1, 3_000);
    let written = store.telemetry.write_batch(&project("p"), batch(vec![own]), at(0)).await;
    assert!(matches!(written, Err(Error::TooLong)), "{written:?}");
    store.close().await;
}
