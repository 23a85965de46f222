//! Comparisons of equal, hostile, large and missing traces.

use std::sync::Arc;

use perpend_domain::observation::{Level, ObservationKind};
use perpend_domain::outline::{Outline, align};
use perpend_domain::payload::Payload;
use perpend_domain::score::ScoreValue;
use serde_json::json;

use super::*;
use crate::pages_tests::{HOSTILE, checked, hostile_observation, outline, shell, trace};
use crate::trace::sample_observations::observation;

const PRINTS: ContentFingerprints =
    ContentFingerprints { input: 1, output: 2, parameters: 3, prompt: 4, status: 5 };

fn side(
    name: &str,
    observations: &[Observation],
    fingerprints: ContentFingerprints,
) -> CompareSide {
    let outline = outline(observations);
    let by_name = [(name, &ScoreValue::Numeric(0.5))];
    let own = ScoresByName::new(by_name.into_iter());
    let of_first = observations.first().map(|one| (Some(one.id.to_string()), own.clone()));
    CompareSide {
        fingerprints: Arc::new(ObservationFingerprints(
            observations.iter().map(|one| (one.id.clone(), fingerprints)).collect(),
        )),
        trace: trace(name),
        outline: Arc::new(outline),
        scores: of_first.into_iter().chain([(None, own)]).collect(),
    }
}

fn query() -> CompareQuery {
    CompareQuery { a: "one".to_owned(), b: "two".to_owned(), ..CompareQuery::default() }
}

fn compared(
    query: CompareQuery,
    sides: [Option<CompareSide>; 2],
    observations: Option<[Option<Observation>; 2]>,
) -> ComparePage {
    let nothing = Outline::default();
    let pairs = {
        let outlines =
            sides.each_ref().map(|side| side.as_ref().map_or(&nothing, |side| &*side.outline));
        align(outlines[0], outlines[1])
    };
    ComparePage::new(CompareInput {
        shell: shell(),
        query,
        sides,
        pairs,
        observations,
        notices: vec![Text::from(HOSTILE)],
    })
}

/// A root with `n` children with different names that take 100 ms plus `ms` each.
fn observations(n: usize, ms: i64) -> Vec<Observation> {
    let below = (0..n).map(|at| {
        let mut one = observation(&format!("s{at:05}"), Some("root"), 10, 100 + ms);
        one.name = format!("observation {at}");
        one
    });
    [observation("root", None, 0, 5_000)].into_iter().chain(below).collect()
}

#[test]
fn hostile_text_is_inert_in_a_comparison() {
    let mut other = hostile_observation();
    other.content.output =
        Some(Payload::from_value(json!({ HOSTILE: [1, HOSTILE, format!("{HOSTILE}\nend")] })));
    other.model = Some("another".to_owned());
    let sides = [
        Some(side(HOSTILE, &[hostile_observation(), observation("x", None, 5, 5)], PRINTS)),
        Some(side(HOSTILE, &[other.clone()], ContentFingerprints { output: 9, ..PRINTS })),
    ];
    for is_inline in [false, true] {
        let query = CompareQuery {
            a: HOSTILE.to_owned(),
            b: HOSTILE.to_owned(),
            pair: Some(ComparedObservation::A(hostile_observation().id.to_string())),
            diff: crate::DiffChoice { is_inline, ignores_space: false },
            ..CompareQuery::default()
        };
        let html = checked(&compared(
            query,
            sides.clone(),
            Some([Some(hostile_observation()), Some(other.clone())]),
        ));
        assert!(html.contains("changed") && html.contains("only in A"), "{html}");
        assert!(html.contains("<ins>") && html.contains("aria-current=\"true\""), "{html}");
    }
    let view = CompareSelectionPage {
        shell: shell(),
        selected: vec![Text::from(HOSTILE); 3],
        list: Some("/traces?q=a".to_owned()),
    };
    assert!(checked(&view).contains("3 traces selected. Select exactly two."));
}

#[test]
fn equal_traces_have_no_difference_unless_contents_were_not_read() {
    let both = || [(); 2].map(|()| Some(side("ticket", &observations(3, 0), PRINTS)));
    let html = checked(&compared(query(), both(), None));
    assert!(html.contains("<p class=\"same-value\">No difference</p>"), "{html}");
    assert!(html.contains("4 equal observations") && !html.contains("changed"), "{html}");
    let mut unread = both();
    for side in unread.iter_mut().flatten() {
        let last = side.outline.rows()[2].id().to_owned();
        let fingerprints = Arc::make_mut(&mut side.fingerprints);
        fingerprints.0.retain(|id, _| id.as_str() != last);
    }
    let page = compared(query(), unread, None);
    assert!(
        !page.is_same && page.verdict.ends_with("the contents of 1 observation were not compared"),
        "{}",
        page.verdict
    );
}

#[test]
fn swapping_inverts_every_sign() {
    let first = || side("a", &observations(3, 0), PRINTS);
    let second = || {
        let mut all = observations(4, 250);
        all[2].level = Level::Error;
        let mut side = side("a", &all, ContentFingerprints { input: 8, ..PRINTS });
        side.trace.latency_us = 900_000;
        side.trace.total_cost = 1.5;
        side.trace.usage = [("input".to_owned(), 100.into())].into();
        side
    };
    let there = compared(query(), [Some(first()), Some(second())], None);
    let back = compared(query(), [Some(second()), Some(first())], None);
    let turned = |delta: &Option<String>| {
        let turn = |c| match c {
            '+' => '−',
            '−' => '+',
            c => c,
        };
        delta.as_ref().map(|delta| delta.chars().map(turn).collect::<String>())
    };
    let mut n = 0;
    let mut check = |one: &ComparedFigure, other: &ComparedFigure| {
        assert_eq!((&one.a, &one.b, turned(&one.delta)), (&other.b, &other.a, other.delta.clone()));
        n += usize::from(one.delta.is_some());
    };
    for ((_, one), (_, other)) in there.facts.iter().zip(&back.facts) {
        check(one, other);
    }
    let rows = |page: &ComparePage| -> Vec<(String, &'static str, Vec<ComparedFigure>)> {
        let rows = page.window.lines.iter().filter_map(|line| match line {
            CompareLine::Row(row) => {
                Some((row.name.raw().to_owned(), row.state, row.figures.to_vec()))
            }
            CompareLine::Equal { .. } => None,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    };
    let (there, back) = (rows(&there), rows(&back));
    assert_eq!(there.len(), 5);
    for ((name, state, one), (_, other_state, other)) in there.iter().zip(&back) {
        one.iter().zip(other).for_each(|(one, other)| check(one, other));
        let expected = match *state {
            "only in B" => "only in A",
            state => state,
        };
        assert_eq!(*other_state, expected, "{name}");
    }
    assert!(4 < n, "{n} deltas");
}

#[test]
fn missing_trace_is_reported_and_the_other_one_is_shown() {
    let html = checked(&compared(
        query(),
        [None, Some(side("ticket", &observations(2, 0), PRINTS))],
        None,
    ));
    assert!(
        html.contains("A: this project has no trace with the id <code><bdi>one</bdi></code>."),
        "{html}"
    );
    assert!(html.contains("Latency") && html.contains("observation 1"), "{html}");
    assert!(html.contains("Recorded only in B") && !html.contains("No difference"), "{html}");
    let html = checked(&compared(query(), [None, None], None));
    assert!(
        html.contains("id <code><bdi>two</bdi></code>") && html.contains("Compare other traces"),
        "{html}"
    );
}

#[test]
fn ten_thousand_rows_are_compared_in_pages() {
    let sides = || {
        [
            Some(side("a", &observations(5_000, 0), PRINTS)),
            Some(side("a", &observations(5_000, 300), PRINTS)),
        ]
    };
    let page = compared(query(), sides(), None);
    let html = checked(&page);
    assert_eq!(page.window.lines.len(), COMPARED_ROWS);
    assert!(
        html.contains("Lines 1–150 of 5,001") && html.contains("rel=\"next\""),
        "{}",
        html.len()
    );
    assert!(html.len() < 300 << 10, "{}", html.len());
    let end = compared(CompareQuery { at: 99_999, ..query() }, sides(), None);
    assert_eq!((end.window.at, end.window.lines.len()), (4_950, 51));
    let equal = [(); 2].map(|()| Some(side("a", &observations(5_000, 0), PRINTS)));
    assert_eq!(compared(query(), equal, None).window.n_lines, 1);
}

#[test]
fn rows_of_different_kinds_are_not_matched() {
    let mut other = observation("x", None, 0, 10);
    other.kind = ObservationKind::Tool;
    let sides = [&observation("x", None, 0, 10), &other];
    let sides = sides.map(|one| Some(side("a", std::slice::from_ref(one), PRINTS)));
    let page = compared(query(), sides, None);
    assert!(page.verdict.starts_with("1 only in A, 1 only in B"), "{}", page.verdict);
}
