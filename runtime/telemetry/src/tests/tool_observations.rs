//! Tool calls in the turns of a session.

use super::*;

#[tokio::test]
async fn calls_of_tools_are_read_for_many_traces_at_once_and_very_long_ones_without_content() {
    on_each_database(|store| async move {
        let p = project("p1");
        let telemetry = &store.telemetry;
        let tool = |trace, id| {
            let mut own = span(trace, id, Some(1));
            own.kind = ObservationKind::Tool;
            own
        };
        let mut long = tool(2, 2);
        long.content.output = Some(Payload::Text("x".repeat(5 << 20)));
        // The last one of the first trace starts first.
        let mut early = tool(1, 9);
        early.start = at(0);
        let mut spans: Vec<Observation> = (1..=4).map(|trace| span(trace, 1, None)).collect();
        spans.extend((2..=6).map(|id| tool(1, id)));
        spans.extend([early, long.clone(), tool(2, 3), span(3, 2, Some(1)), tool(4, 2)]);
        let write = telemetry.write_batch(&p, batch(spans), at(0));
        write.await.unwrap();

        let wanted = [1, 2, 3].map(trace_id);
        let found = telemetry.tool_observations(&p, &wanted, 3).await.unwrap();
        assert_eq!(found.len(), 2, "neither one without tools nor one not requested");
        let first = &found[&wanted[0]];
        let ids: Vec<_> = first.observations.iter().map(|step| step.id.clone()).collect();
        assert_eq!((ids, first.n), ([9, 2, 3].map(span_id).to_vec(), 6));
        assert_eq!(first.observations[1], tool(1, 2));
        let second = &found[&wanted[1]];
        assert!(
            second.observations[0].has_content
                && second.observations[0].content == Content::default()
        );
        assert_eq!(second.observations[0].name, long.name);
        assert_eq!(second.observations[1], tool(2, 3));
        let foreign = telemetry.tool_observations(&project("p2"), &wanted, 3).await;
        assert!(foreign.unwrap().is_empty());
        assert!(telemetry.tool_observations(&p, &[], 3).await.unwrap().is_empty());
    })
    .await;
}
