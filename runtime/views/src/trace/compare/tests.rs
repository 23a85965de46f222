//! Two traces compared: equal, hostile, large, and with a side that is not there.

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

fn side(name: &str, steps: &[Observation], fingerprints: ContentFingerprints) -> CompareSide {
    let outline = outline(steps);
    let by_name = [(name, &ScoreValue::Numeric(0.5))];
    let own = ScoresByName::new(by_name.into_iter());
    let of_step = steps.first().map(|step| (Some(step.id.to_string()), own.clone()));
    CompareSide {
        fingerprints: Arc::new(ObservationFingerprints(
            steps.iter().map(|step| (step.id.clone(), fingerprints)).collect(),
        )),
        trace: trace(name),
        outline: Arc::new(outline),
        scores: of_step.into_iter().chain([(None, own)]).collect(),
    }
}

fn asked() -> CompareQuery {
    CompareQuery { a: "one".to_owned(), b: "two".to_owned(), ..CompareQuery::default() }
}

fn compared(
    query: CompareQuery,
    sides: [Option<CompareSide>; 2],
    steps: Option<[Option<Observation>; 2]>,
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
        steps,
        notices: vec![Text::from(HOSTILE)],
    })
}

/// A root with `n` steps below it, each of a name of its own, that take `ms` longer each.
fn steps(n: usize, ms: i64) -> Vec<Observation> {
    let below = (0..n).map(|at| {
        let mut step = observation(&format!("s{at:05}"), Some("root"), 10, 100 + ms);
        step.name = format!("step {at}");
        step
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
        given: vec![Text::from(HOSTILE); 3],
        list: Some("/traces?q=a".to_owned()),
    };
    assert!(checked(&view).contains("3 traces chosen: choose exactly two."));
}

#[test]
fn equal_traces_have_no_difference_and_unread_contents_are_never_called_equal() {
    let both = || [(); 2].map(|()| Some(side("ticket", &steps(3, 0), PRINTS)));
    let html = checked(&compared(asked(), both(), None));
    assert!(html.contains("<p class=\"same-value\">No difference</p>"), "{html}");
    assert!(html.contains("4 equal steps") && !html.contains("changed"), "{html}");
    let mut unread = both();
    for side in unread.iter_mut().flatten() {
        let last = side.outline.rows()[2].id().to_owned();
        let fingerprints = Arc::make_mut(&mut side.fingerprints);
        fingerprints.0.retain(|id, _| id.as_str() != last);
    }
    let page = compared(asked(), unread, None);
    assert!(
        !page.is_same && page.verdict.ends_with("the contents of 1 step were not compared"),
        "{}",
        page.verdict
    );
}

#[test]
fn swapping_mirrors_every_sign() {
    let first = || side("a", &steps(3, 0), PRINTS);
    let second = || {
        let mut all = steps(4, 250);
        all[2].level = Level::Error;
        let mut side = side("a", &all, ContentFingerprints { input: 8, ..PRINTS });
        side.trace.latency_us = 900_000;
        side.trace.total_cost = 1.5;
        side.trace.usage = [("input".to_owned(), 100.into())].into();
        side
    };
    let there = compared(asked(), [Some(first()), Some(second())], None);
    let back = compared(asked(), [Some(second()), Some(first())], None);
    let turned = |delta: &Option<String>| {
        let turn = |c| match c {
            '+' => '−',
            '−' => '+',
            c => c,
        };
        delta.as_ref().map(|delta| delta.chars().map(turn).collect::<String>())
    };
    let mut n = 0;
    let mut check = |one: &Figure, other: &Figure| {
        assert_eq!((&one.a, &one.b, turned(&one.delta)), (&other.b, &other.a, other.delta.clone()));
        n += usize::from(one.delta.is_some());
    };
    for ((_, one), (_, other)) in there.facts.iter().zip(&back.facts) {
        check(one, other);
    }
    let rows = |page: &ComparePage| -> Vec<(String, &'static str, Vec<Figure>)> {
        let rows = page.window.lines.iter().filter_map(|line| match line {
            Shown::Row(row) => Some((row.name.raw().to_owned(), row.state, row.figures.to_vec())),
            Shown::Equal { .. } => None,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    };
    let (there, back) = (rows(&there), rows(&back));
    assert_eq!(there.len(), 5);
    for ((name, state, one), (_, other_state, other)) in there.iter().zip(&back) {
        one.iter().zip(other).for_each(|(one, other)| check(one, other));
        let wanted = match *state {
            "only in B" => "only in A",
            state => state,
        };
        assert_eq!(*other_state, wanted, "{name}");
    }
    assert!(4 < n, "{n} deltas");
}

#[test]
fn a_side_that_is_not_there_says_so_and_the_other_one_is_shown() {
    let html =
        checked(&compared(asked(), [None, Some(side("ticket", &steps(2, 0), PRINTS))], None));
    assert!(
        html.contains("A: this project has no trace with the id <code><bdi>one</bdi></code>."),
        "{html}"
    );
    assert!(html.contains("Latency") && html.contains("step 1"), "{html}");
    assert!(html.contains("Recorded only in B") && !html.contains("No difference"), "{html}");
    let html = checked(&compared(asked(), [None, None], None));
    assert!(
        html.contains("id <code><bdi>two</bdi></code>") && html.contains("Compare others"),
        "{html}"
    );
}

#[test]
fn ten_thousand_rows_are_compared_in_windows() {
    let sides =
        || [Some(side("a", &steps(5_000, 0), PRINTS)), Some(side("a", &steps(5_000, 300), PRINTS))];
    let page = compared(asked(), sides(), None);
    let html = checked(&page);
    assert_eq!(page.window.lines.len(), COMPARED_ROWS);
    assert!(
        html.contains("Lines 1–150 of 5,001") && html.contains("rel=\"next\""),
        "{}",
        html.len()
    );
    assert!(html.len() < 300 << 10, "{}", html.len());
    let end = compared(CompareQuery { at: 99_999, ..asked() }, sides(), None);
    assert_eq!((end.window.at, end.window.lines.len()), (4_950, 51));
    let equal = [(); 2].map(|()| Some(side("a", &steps(5_000, 0), PRINTS)));
    assert_eq!(compared(asked(), equal, None).window.n_lines, 1);
}

#[test]
fn rows_of_another_kind_do_not_belong_together() {
    let mut other = observation("x", None, 0, 10);
    other.kind = ObservationKind::Tool;
    let sides = [&observation("x", None, 0, 10), &other];
    let sides = sides.map(|step| Some(side("a", std::slice::from_ref(step), PRINTS)));
    let page = compared(asked(), sides, None);
    assert!(page.verdict.starts_with("1 only in A, 1 only in B"), "{}", page.verdict);
}
