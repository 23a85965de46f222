//! Text search in a trace.

use std::collections::HashMap;
use std::time::Duration;

use perpend_domain::patch::record_id;
use perpend_domain::text_search::{SearchField, SearchHit, TextPattern};

use super::*;
use crate::FindQuery;

const LONG: Duration = Duration::from_secs(3_600);

/// All hits of a search whose requests end after this number of hits or this time.
async fn found(
    store: &Store,
    project: &ProjectId,
    text: &str,
    (limit, time): (usize, Duration),
) -> Vec<SearchHit> {
    let (mut hits, mut after, mut n_before) = (Vec::new(), None, 0);
    loop {
        let query =
            FindQuery { limit, time, ..FindQuery::new(TextPattern::new(text).unwrap(), after) };
        let trace = trace_id(1);
        let found = store.telemetry.find_in_trace(project, &trace, &query);
        let part = found.await.unwrap().unwrap();
        assert!(part.hits.len() <= limit);
        hits.extend(part.hits);
        let Some(next) = part.next else {
            assert_eq!(part.n_searched, part.n_observations);
            return hits;
        };
        assert!(n_before < part.n_searched && part.n_searched < part.n_observations);
        (after, n_before) = (Some(next), part.n_searched);
    }
}

fn ids(hits: &[SearchHit]) -> Vec<Option<String>> {
    let id =
        |hit: &SearchHit| hit.observation.as_ref().map(|observation| observation.id.to_string());
    hits.iter().map(id).collect()
}

/// An observation with the text in these parts, except comments.
fn with_text(n: u32, parts: &[SearchField]) -> Observation {
    let mut own = span(1, n, None);
    own.start = at(i64::from(n % 40));
    for part in parts {
        match part {
            SearchField::Id => own.id = ObservationId::new(&format!("NADEL äö {n}")).unwrap(),
            SearchField::Name => own.name = "a nadel ÄÖ".to_owned(),
            SearchField::Status => own.status_message = Some("Nadel Äö".to_owned()),
            SearchField::Input => own.content.input = Some(Payload::Text("(NADEL ÄÖ)".to_owned())),
            SearchField::Output => {
                own.content.output = Some(Payload::Json("{\"nadel äö\":1}".to_owned()));
            }
            SearchField::Metadata => {
                let deep = json!({"deep": ["Nadel äö"]});
                own.content.metadata.insert("key".to_owned(), deep);
            }
            SearchField::Events => {
                let events = json!([{"name": "nadel Äö"}]);
                own.content.metadata.insert("events".to_owned(), events);
            }
            SearchField::Comment => {}
        }
    }
    own
}

#[tokio::test]
async fn the_parts_of_a_search_together_equal_a_full_scan() {
    on_each_database(|store| async move {
        let mut runner = TestRunner::deterministic();
        for round in 0..4 {
            let p = project(&format!("p{round}"));
            // Each bit is a part that contains the text; most observations have none.
            let masks = prop::collection::vec(0..1_024_u32, 1..600);
            let masks = masks.new_tree(&mut runner).unwrap().current();
            let mut whole = Batch::default();
            let mut parts_of = HashMap::new();
            for (n, mask) in (1..).zip(&masks) {
                let has = |part: &SearchField| {
                    let bit = SearchField::ALL.iter().position(|own| own == part).unwrap();
                    *mask < 256 && mask & (1 << bit) != 0
                };
                let parts: Vec<SearchField> =
                    SearchField::ALL.iter().copied().filter(has).collect();
                let step = with_text(n, &parts);
                if parts.contains(&SearchField::Comment) {
                    let about = Subject::Observation(trace_id(1), step.id.clone());
                    let mut comment = score(&format!("s{round}-{n}"), about, "tone", 1.0);
                    comment.comment = Some("the NADEL äö".to_owned());
                    whole.scores.push(comment);
                }
                parts_of.insert(step.id.clone(), parts);
                whole.observations.push(step);
            }
            store.telemetry.write_batch(&p, whole, at(1)).await.unwrap();
            let trace = trace_id(1);
            let all = store.telemetry.trace_observations(&p, &trace, true);
            let all = all.await.unwrap();
            assert_eq!(all.len(), masks.len());
            let with_parts = all.iter().filter_map(|stored| {
                let id = &stored.observation.id;
                let parts = parts_of.get(id).filter(|parts| !parts.is_empty())?;
                Some((Some(id.to_string()), parts.clone()))
            });
            let expected: Vec<(Option<String>, Vec<SearchField>)> = with_parts.collect();
            for bounds in [(10_000, LONG), (2, LONG), (10_000, Duration::ZERO), (7, Duration::ZERO)]
            {
                let hits = found(&store, &p, "nadel äö", bounds).await;
                let parts = |hit: &SearchHit| -> Vec<SearchField> {
                    hit.matches.iter().map(|found| found.field).collect()
                };
                let parts: Vec<Vec<SearchField>> = hits.iter().map(parts).collect();
                let hits: Vec<_> = ids(&hits).into_iter().zip(parts).collect();
                assert_eq!(hits, expected, "{bounds:?}");
            }
            assert!(found(&store, &p, "nadel öä", (2, LONG)).await.is_empty());
        }
    })
    .await;
}

#[tokio::test]
async fn the_trace_itself_is_found_by_its_record_and_by_comments_about_it() {
    on_each_database(|store| async move {
        let p = project("p1");
        let mut record = span(1, 7, None);
        record.id = record_id(&trace_id(1)).unwrap();
        record.name = "needle".to_owned();
        record.trace = Some(Box::new(TraceFacts {
            output: Some(Payload::Text("a needle".to_owned())),
            ..TraceFacts::default()
        }));
        let mut comments = ["Needle, needle", "no NEEDLE"].map(|comment| {
            let mut score = score(comment, Subject::Trace(trace_id(1)), "tone", 1.0);
            score.comment = Some(comment.to_owned());
            score
        });
        comments[1].timestamp = at(1);
        let batch = Batch {
            observations: vec![record, with_text(1, &[]), with_text(2, &[])],
            scores: comments.into(),
            ..Batch::default()
        };
        store.telemetry.write_batch(&p, batch, at(1)).await.unwrap();
        let hits = found(&store, &p, "needle", (2, LONG)).await;
        assert_eq!(ids(&hits), [None]);
        let matches = hits[0].matches.iter();
        let matches = matches.map(|found| (found.field, found.excerpt.before.as_str(), found.n));
        let expected = [(SearchField::Output, "a ", 1), (SearchField::Comment, "no ", 3)];
        assert_eq!(matches.collect::<Vec<_>>(), expected);
        // Comments on the record, which is no observation, and on an observation that has not arrived are
        // found too.
        let elsewhere = [record_id(&trace_id(1)).unwrap(), span(1, 9, None).id];
        let elsewhere = elsewhere.map(|id| {
            let about = Subject::Observation(trace_id(1), id.clone());
            let mut score = score(id.as_str(), about, "tone", 1.0);
            score.comment = Some("a needle".to_owned());
            score
        });
        let batch = Batch { scores: elsewhere.into(), ..Batch::default() };
        store.telemetry.write_batch(&p, batch, at(1)).await.unwrap();
        let n_comments = |hit: &SearchHit| {
            let mut matches = hit.matches.iter();
            let comment = matches.find(|found| found.field == SearchField::Comment);
            comment.map_or(0, |found| found.n)
        };
        for bounds in [(2, LONG), (100, Duration::ZERO)] {
            let hits = found(&store, &p, "needle", bounds).await;
            assert_eq!(ids(&hits), [None]);
            assert_eq!(n_comments(&hits[0]), 5);
        }
        // When the observation arrives, its comment is on the observation.
        let batch = Batch { observations: vec![with_text(9, &[])], ..Batch::default() };
        store.telemetry.write_batch(&p, batch, at(2)).await.unwrap();
        let hits = found(&store, &p, "needle", (2, LONG)).await;
        assert_eq!(ids(&hits), [None, Some(span(1, 9, None).id.to_string())]);
        let n: Vec<u64> = hits.iter().map(n_comments).collect();
        assert_eq!(n, [4, 1]);
        let query = FindQuery {
            limit: 2,
            time: LONG,
            ..FindQuery::new(TextPattern::new("needle").unwrap(), None)
        };
        for (p, trace) in [(&p, trace_id(2)), (&project("p2"), trace_id(1))] {
            let found = store.telemetry.find_in_trace(p, &trace, &query).await;
            assert!(found.unwrap().is_none());
        }
    })
    .await;
}
