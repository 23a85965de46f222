//! The narrow rows from which the outline of a trace is made.

use perpend_domain::patch::TRACE_RECORD;
use perpend_domain::telemetry::ObservationSummary;

use super::*;

fn bone_of(span: &Observation) -> ObservationSummary {
    ObservationSummary {
        id: span.id.to_string(),
        parent_id: span.parent_id.as_ref().map(ToString::to_string),
        kind: span.kind,
        name: span.name.clone(),
        level: span.level,
        start: span.start,
        end: span.end,
        first_token: span.completion_start,
        model: span.model.clone(),
        tokens: span.usage.get("total").map(|n| n.to_u64()),
        cost: span.effective_cost().get("total").copied(),
    }
}

#[tokio::test]
async fn an_outline_is_made_from_narrow_rows_of_observations() {
    on_each_database(|store| async move {
        let (p, trace) = (project("p1"), trace_id(1));
        let telemetry = &store.telemetry;
        let mut bare = span(1, 2, Some(1));
        (bare.usage, bare.computed_cost, bare.end) = (Usage::new(), Cost::new(), None);
        let mut parts = span(1, 3, Some(1));
        parts.usage =
            Usage::from([("input".to_owned(), u64::MAX.into()), ("output".to_owned(), 2.into())]);
        let mut record = span(1, 4, None);
        record.id = ObservationId::new(&format!("t-{trace}")).unwrap();
        record.scope_name = TRACE_RECORD.to_owned();
        let spans = vec![span(1, 1, None), bare, parts, span(2, 5, None), record];
        let write = telemetry.write_batch(&p, batch(spans.clone()), at(0));
        write.await.unwrap();

        let mut outline = telemetry.outline_observations(&p, &trace).await.unwrap();
        outline.sort_by(|a, b| a.id.cmp(&b.id));
        let mut expected: Vec<ObservationSummary> = spans[..3].iter().map(bone_of).collect();
        expected[2].tokens = Some(i64::MAX as u64 + 2);
        assert_eq!(outline, expected);
        assert_eq!((outline[1].tokens, outline[1].cost, outline[1].end), (None, None, None));
        let foreign = telemetry.outline_observations(&project("p2"), &trace).await;
        assert_eq!(foreign.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn observations_are_read_whether_or_not_their_rows_are_adjacent() {
    on_each_database(|store| async move {
        let (p, trace) = (project("p1"), trace_id(1));
        let telemetry = &store.telemetry;
        let ids = || async {
            let mut outline = telemetry.outline_observations(&p, &trace).await.unwrap();
            outline.sort_by(|a, b| a.id.cmp(&b.id));
            outline.into_iter().map(|observation| observation.id).collect::<Vec<_>>()
        };
        let of = |n: u32| span_id(n).to_string();
        let write = |spans| telemetry.write_batch(&p, batch(spans), at(0));
        write(vec![span(1, 1, None), span(2, 2, None)]).await.unwrap();
        assert_eq!(ids().await, [of(1)]);
        let others = (10..40).map(|n| span(2, n, Some(2)));
        write(others.collect()).await.unwrap();
        write(vec![span(1, 3, Some(1))]).await.unwrap();
        assert_eq!(ids().await, [of(1), of(3)]);
    })
    .await;
}

#[tokio::test]
async fn the_version_of_an_outline_changes_with_its_observations_alone() {
    on_each_database(|store| async move {
        let (p, trace) = (project("p1"), trace_id(1));
        let telemetry = &store.telemetry;
        assert_eq!(telemetry.trace_version(&p, &trace).await.unwrap(), None);
        let first = batch(vec![span(1, 1, None)]);
        telemetry.write_batch(&p, first.clone(), at(0)).await.unwrap();
        let version = || async { telemetry.trace_version(&p, &trace).await.unwrap().unwrap() };
        let before = version().await;
        // Folding and reading the trace change nothing.
        telemetry.trace(&p, &trace, true).await.unwrap();
        telemetry.write_batch(&p, first, at(0)).await.unwrap();
        assert_eq!(version().await, before);
        let more = batch(vec![span(1, 2, Some(1))]);
        telemetry.write_batch(&p, more.clone(), at(0)).await.unwrap();
        let after = version().await;
        assert_ne!(after, before);
        // An observation that is deleted and sent again is a new one, however often it changed.
        telemetry.delete_traces(&p, std::slice::from_ref(&trace)).await.unwrap();
        assert_eq!(telemetry.trace_version(&p, &trace).await.unwrap(), None);
        telemetry.write_batch(&p, more, at(0)).await.unwrap();
        assert_ne!(version().await.number, after.number);
    })
    .await;
}

#[tokio::test]
async fn scores_for_an_outline_are_counted_and_those_of_one_subject_read() {
    on_each_database(|store| async move {
        let (p, trace) = (project("p1"), trace_id(1));
        let telemetry = &store.telemetry;
        let subjects = [
            Subject::Trace(trace.clone()),
            Subject::Observation(trace.clone(), span_id(1)),
            Subject::Observation(trace.clone(), span_id(1)),
            Subject::Observation(trace.clone(), span_id(2)),
            Subject::Observation(trace_id(2), span_id(1)),
        ];
        let score = |(at_millis, subject): (i64, Subject)| NewScore {
            timestamp: at(at_millis),
            ..score(&format!("s{at_millis}"), subject, "quality", 1.0)
        };
        let scores: Vec<NewScore> = (0..).zip(subjects).map(score).collect();
        telemetry.put_scores(&p, &scores, at(9)).await.unwrap();

        let one = span_id(1);
        let counts = telemetry.score_counts(&p, &trace, &[one.as_str(), "other"]).await.unwrap();
        assert_eq!(counts, [(None, 1), (Some(one.to_string()), 2)].into());
        let counts = telemetry.score_counts(&p, &trace, &[]).await.unwrap();
        assert_eq!(counts, [(None, 1)].into());
        let ids = |found: Result<Vec<perpend_domain::score::Score>, Error>| -> Vec<String> {
            let found = found.unwrap().into_iter();
            found.map(|score| score.written.id.to_string()).collect()
        };
        assert_eq!(ids(telemetry.scores_about(&p, &trace, None).await), ["s0"]);
        assert_eq!(ids(telemetry.scores_about(&p, &trace, Some(&one)).await), ["s2", "s1"]);
    })
    .await;
}
