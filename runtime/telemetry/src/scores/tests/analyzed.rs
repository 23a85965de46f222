//! Scores as statistics read them.

use perpend_domain::score_analytics::AnalyzedScore;

use super::*;

async fn analyzed(store: &Store, project: &ProjectId, query: &ScoreQuery) -> Vec<AnalyzedScore> {
    let mut found = Vec::new();
    let take = |score| {
        found.push(score);
        Ok(())
    };
    store.telemetry.each_analyzed_score(project, query, take).await.unwrap();
    found.sort_by_key(|score| score.timestamp);
    found
}

#[tokio::test]
async fn statistics_read_the_numbers_and_categories_of_one_name_and_project() {
    on_each_database(|store| async move {
        let (home, other) = (project("home"), project("other"));
        let named = |name: &str, score: NewScore| NewScore { name: name.to_owned(), ..score };
        let later = |seconds, score: NewScore| NewScore { timestamp: at(seconds), ..score };
        let observation = Subject::Observation(trace("t1"), ObservationId::new("o1").unwrap());
        let written = [
            full("1", ScoreValue::Numeric(0.25), observation.clone()),
            later(1, score("2", ScoreValue::Boolean(true))),
            later(2, score("3", ScoreValue::Categorical("good".into()))),
            later(3, score("4", ScoreValue::Text("no statistic has texts".into()))),
            later(4, named("another", score("5", ScoreValue::Numeric(1.0)))),
        ];
        store.telemetry.put_scores(&home, &written, at(9)).await.unwrap();
        let foreign = [
            score("1", ScoreValue::Numeric(7.0)),
            named("foreign", score("6", ScoreValue::Numeric(7.0))),
        ];
        store.telemetry.put_scores(&other, &foreign, at(9)).await.unwrap();

        let query = ScoreQuery { names: vec!["correct".to_owned()], ..ScoreQuery::default() };
        let found = analyzed(&store, &home, &query).await;
        let values: Vec<&ScoreValue> = found.iter().map(|score| &score.value).collect();
        assert_eq!(values, written[..3].iter().map(|score| &score.value).collect::<Vec<_>>());
        assert_eq!((&found[0].subject, found[0].probability), (&observation, 0.1));
        let version = found[0].version.as_ref().map(|(_, version)| version.as_str());
        assert_eq!((version, found[1].version.as_ref()), (Some("version"), None));
        assert_eq!((found[0].environment.as_str(), found[1].probability), ("production", 1.0));
        assert_eq!((&found[0].release, found[0].trace_start), (&None, None), "no trace is stored");

        let range = ScoreQuery { from: Some(at(1)), to: Some(at(2)), ..query.clone() };
        assert_eq!(analyzed(&store, &home, &range).await.len(), 1);
        let sources = vec![ScoreSource::Eval];
        let of_evaluators = ScoreQuery { sources, ..query };
        assert_eq!(analyzed(&store, &home, &of_evaluators).await.len(), 1);

        let names = store.telemetry.score_name_list(&home, 10).await.unwrap();
        assert_eq!(names, ["another", "correct"]);
        assert_eq!(store.telemetry.score_name_list(&home, 1).await.unwrap(), ["another"]);
        let none = store.telemetry.score_name_list(&project("none"), 10).await.unwrap();
        assert!(none.is_empty());
    })
    .await;
}
