//! Pages of the list in both directions, and superseded scores.

use perpend_domain::filter::{Condition, Filter, SCORES, find};
use perpend_domain::list::{BidirectionalPage, ListPosition};

use super::*;
use crate::scores::supersede;

/// More than the number of scores.
const ALL: u64 = 1_000;

async fn part(
    store: &Store,
    query: &ScoreQuery,
    position: &ListPosition,
    bounds: (u32, u64),
) -> BidirectionalPage<Score> {
    let home = project("home");
    let part = store.telemetry.scores_from(&home, query, position, bounds);
    part.await.unwrap()
}

fn tested(column: &'static str, test: Test) -> ScoreQuery {
    query(|q| {
        q.filter = Filter { conditions: vec![Condition { column: find(SCORES, column), test }] };
    })
}

/// The whole list in small pages, forwards and backwards.
async fn walked(store: &Store, query: &ScoreQuery, bounds: (u32, u64)) -> [Vec<String>; 2] {
    let (mut forth, mut back) = (Vec::new(), Vec::new());
    let mut position = Some(ListPosition::default());
    while let Some(from) = position {
        let found = part(store, query, &from, bounds).await;
        forth.extend(ids(&found.items).into_iter().map(str::to_owned));
        position = found.older.or(found.stopped).map(ListPosition::after);
    }
    let before = |cursor| ListPosition { cursor: Some(cursor), is_backwards: true };
    let mut position = Some(ListPosition::end());
    while let Some(from) = position {
        let found = part(store, query, &from, bounds).await;
        let mut some: Vec<String> = ids(&found.items).into_iter().map(str::to_owned).collect();
        some.append(&mut back);
        back = some;
        position = found.newer.or(found.stopped).map(before);
    }
    [forth, back]
}

#[tokio::test]
async fn the_list_is_the_same_forth_and_back_over_equal_times() {
    on_each_database(|store| async move {
        let home = project("home");
        let mut all: Vec<NewScore> = (0..40)
            .map(|n| NewScore {
                timestamp: at(n / 15),
                name: ["a", "b"][usize::from(n % 3 == 0)].to_owned(),
                ..score(&format!("{n:02}"), ScoreValue::Numeric(n as f64))
            })
            .collect();
        store.telemetry.put_scores(&home, &all, at(1)).await.unwrap();
        all.sort_by_key(|score| std::cmp::Reverse((score.timestamp, score.id.clone())));
        let expected = |fits: fn(&NewScore) -> bool| -> Vec<String> {
            let fitting = all.iter().filter(|score| fits(score));
            fitting.map(|score| score.id.to_string()).collect()
        };
        let text = |text: &str| vec![text.to_owned()];
        let whole = expected(|_| true);
        let of_a = expected(|score| score.name == "a");
        let high = expected(|score| matches!(score.value, ScoreValue::Numeric(n) if 20.0 < n));
        let within = expected(|score| at(1) <= score.timestamp && score.timestamp < at(2));
        for (query, expected) in [
            (query(|_| {}), whole.clone()),
            (query(|q| q.names = text("a")), of_a),
            (query(|q| q.trace_ids = vec![trace("t1")]), whole),
            (query(|q| q.number = vec![(Order::Greater, 20.0)]), high),
            (query(|q| (q.from, q.to) = (Some(at(1)), Some(at(2)))), within),
        ] {
            for bounds in [(7, ALL), (100, ALL), (7, 9), (3, 1)] {
                let [forth, back] = walked(&store, &query, bounds).await;
                assert_eq!(forth, expected, "{query:?} {bounds:?}");
                assert_eq!(back, expected, "{query:?} {bounds:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_search_for_scores_stops_at_its_limit_and_returns_the_position() {
    on_each_database(|store| async move {
        let home = project("home");
        let mut all: Vec<NewScore> = (0..30)
            .map(|n| NewScore {
                timestamp: at(n),
                ..score(&format!("{n:02}"), ScoreValue::Numeric(0.0))
            })
            .collect();
        all[5].comment = Some("here it is".to_owned());
        store.telemetry.put_scores(&home, &all, at(1)).await.unwrap();
        let contains = Test::Text(TextOp::Contains, "here".to_owned());
        let query = tested("comment", contains);
        let newest = ListPosition::default();
        let first = part(&store, &query, &newest, (10, 20)).await;
        assert!(first.items.is_empty() && first.older.is_none());
        let place = first.stopped.unwrap();
        assert_eq!((place.at, place.id.as_str()), (at(10), "10"));
        let second = part(&store, &query, &ListPosition::after(place), (10, 20)).await;
        assert_eq!(ids(&second.items), ["05"]);
        assert_eq!((second.stopped, second.older), (None, None));
        // Reading exactly as many as the limit does not stop the search.
        let whole = part(&store, &query, &newest, (10, 30)).await;
        assert_eq!((ids(&whole.items), whole.stopped), (vec!["05"], None));
    })
    .await;
}

#[tokio::test]
async fn each_column_of_a_filter_is_tested() {
    on_each_database(|store| async move {
        let home = project("home");
        store.telemetry.put_scores(&home, &six(), at(9)).await.unwrap();
        let text = |op, text: &str| Test::Text(op, text.to_owned());
        let any =
            |texts: &[&str]| Test::AnyOf(texts.iter().map(|text| (*text).to_owned()).collect());
        let none =
            |texts: &[&str]| Test::NoneOf(texts.iter().map(|text| (*text).to_owned()).collect());
        let print = Digest::of(b"all that made it").to_string();
        use TextOp::{Contains, DoesNotContain, EndsWith, MatchesAnyCase, StartsWith};
        for (column, test, expected) in [
            ("id", none(&["a", "b"]), "cdef"),
            ("text", text(MatchesAnyCase, "TON"), "e"),
            ("name", text(Contains, "rrec"), "abcdf"),
            ("name", none(&["correct"]), "e"),
            ("source", none(&["API"]), "d"),
            ("dataType", none(&["NUMERIC", "BOOLEAN"]), "ef"),
            ("environment", text(StartsWith, "prod"), "d"),
            ("timestamp", Test::Time(Order::NotEqual, at(6)), "bcdef"),
            ("value", Test::IsNull, "ef"),
            ("stringValue", any(&["warm", "x"]), "e"),
            ("stringValue", Test::IsNotNull, "ef"),
            ("comment", text(EndsWith, "cause"), "d"),
            ("comment", text(DoesNotContain, "because"), "abcef"),
            ("traceId", Test::IsNull, "ef"),
            ("observationId", Test::IsNotNull, "d"),
            ("sessionId", any(&["s", ""]), "abcdef"),
            ("configId", Test::IsNotNull, "d"),
            ("queueId", any(&["queue"]), "d"),
            ("authorUserId", none(&["author"]), "abcef"),
            ("executionId", Test::IsNotNull, "d"),
            ("fingerprint", text(StartsWith, &print[..9]), "d"),
            ("fingerprint", Test::IsNull, "abcef"),
            ("metadata", Test::IsNotNull, "abcdef"),
        ] {
            let query = tested(column, test);
            let found = found(&store, &home, query.clone()).await;
            assert_eq!(found.concat(), expected, "{query:?}");
            let part = part(&store, &query, &ListPosition::default(), (10, ALL)).await;
            assert_eq!(ids(&part.items).concat(), expected, "{query:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn superseded_scores_are_listed_under_their_successors() {
    on_each_database(|store| async move {
        let home = project("home");
        let of = |id: &str, name: &str, execution: &str, seconds| NewScore {
            name: name.to_owned(),
            timestamp: at(seconds),
            source: ScoreSource::Eval,
            origin: Some(origin(execution)),
            ..score(id, ScoreValue::Numeric(1.0))
        };
        let of_other = NewScore {
            origin: Some(ScoreOrigin { rule_id: RuleId::new("another").unwrap(), ..origin("z") }),
            ..of("other", "tone", "z", 9)
        };
        let all = [
            of("1a", "tone", "one", 1),
            of("1b", "gone", "one", 1),
            of("2a", "tone", "two", 2),
            of("3a", "tone", "three", 3),
            of("3b", "new", "three", 3),
            of("shadow", "tone", "shadow", 3),
            of_other,
            score("given", ScoreValue::Numeric(1.0)),
        ];
        for project in [&home, &project("foreign")] {
            store.telemetry.put_scores(project, &all, at(1)).await.unwrap();
        }
        let aside = async || -> Result<(), Error> {
            in_transaction!(&store.pool, |tx| {
                let target = Target::Trace(trace("t1"));
                for (old, new) in [("one", "two"), ("two", "three"), ("shadow", "shadow")] {
                    let [old, new] = [old, new].map(|id| ExecutionId::new(id).unwrap());
                    supersede(&mut tx, (&home, &target), &old, &new).await?;
                }
            });
            Ok(())
        };
        aside().await.unwrap();
        let page = part(&store, &ScoreQuery::default(), &ListPosition::default(), (10, ALL)).await;
        assert_eq!(ids(&page.items), ["other", "3b", "3a", "given"]);
        let older = store.telemetry.scores_superseded_by(&home, &page.items);
        let older = older.await.unwrap();
        assert!(!older.is_cut);
        let of_each: Vec<_> = older.of_each.iter().map(|older| ids(older)).collect();
        // A name without a newer score is listed under the first score of the newer generation.
        assert_eq!(of_each, [vec![], vec!["1b"], vec!["2a", "1a"], vec![]]);
        // A part of the list has the superseded scores of that part.
        let few = store.telemetry.scores_superseded_by(&home, &page.items[..2]);
        let of_each: Vec<usize> = few.await.unwrap().of_each.iter().map(Vec::len).collect();
        assert_eq!(of_each, [0, 1]);
        let other = project("foreign");
        let foreign = store.telemetry.scores_superseded_by(&other, &page.items);
        assert!(foreign.await.unwrap().of_each.iter().all(Vec::is_empty));
    })
    .await;
}
