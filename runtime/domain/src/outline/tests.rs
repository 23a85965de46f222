//! Properties of outlines.

use std::collections::HashSet;

use proptest::prelude::*;

use super::runs::SHORTEST;
use super::*;

fn observation(id: &str, parent: Option<&str>, start_ms: i64) -> ObservationSummary {
    let start = Timestamp::from_millis(start_ms);
    ObservationSummary {
        id: id.to_owned(),
        parent_id: parent.map(str::to_owned),
        kind: ObservationKind::Span,
        name: format!("step {id}"),
        level: Level::Default,
        start,
        end: Some(start.plus_millis(10)),
        first_token: None,
        model: None,
        tokens: None,
        cost: None,
    }
}

fn outline(edges: &[(&str, Option<&str>)]) -> Outline {
    let observations = edges.iter().zip(0..);
    Outline::new(observations.map(|((id, parent), at)| observation(id, *parent, at)).collect())
}

fn shown(edges: &[(&str, Option<&str>)]) -> Vec<(String, u32, Option<ParentFault>)> {
    let outline = outline(edges);
    let rows = outline.rows().iter();
    rows.map(|row| (row.id().to_owned(), row.depth, row.parent_fault)).collect()
}

fn visible(view: &OutlineView<'_>) -> Vec<String> {
    let line = |line: &OutlineLine| {
        let id = view.outline().rows()[line.row as usize].id();
        match line.run {
            Some(_) => format!("{id}+"),
            None => id.to_owned(),
        }
    };
    view.window(0, usize::MAX).iter().map(line).collect()
}

#[test]
fn the_time_to_first_token_is_that_of_the_first_observation_with_one() {
    let with_token = |id: &str, start_ms: i64, wait_ms: i64| {
        let mut observation = observation(id, Some("a"), start_ms);
        observation.first_token = Some(observation.start.plus_millis(wait_ms));
        observation
    };
    let first = |observations: Vec<ObservationSummary>| Outline::new(observations).first_token_us();
    assert_eq!(first(vec![observation("a", None, 0)]), None);
    let later = with_token("b", 20, 7);
    let earlier = with_token("c", 10, 90);
    let all = vec![observation("a", None, 0), later, earlier];
    assert_eq!(first(all), Some(90_000));
    // A clock that ran backwards yields no wait.
    assert_eq!(first(vec![with_token("d", 10, -5)]), Some(0));
}

fn lasting(id: &str, parent: Option<&str>, start_ms: i64, end_ms: i64) -> ObservationSummary {
    let mut observation = observation(id, parent, start_ms);
    observation.end = Some(Timestamp::from_millis(end_ms));
    observation
}

#[test]
fn a_gap_is_where_only_rows_with_others_below_them_ran() {
    let at_least = |least_us: i64, observations: Vec<ObservationSummary>| {
        let found = Outline::new(observations).gaps(least_us).into_iter();
        let found = found.map(|(from, to)| (from.as_millis(), to.as_millis()));
        found.collect::<Vec<_>>()
    };
    let gaps = |observations: Vec<ObservationSummary>| at_least(0, observations);
    assert!(gaps(Vec::new()).is_empty());
    assert!(gaps(vec![lasting("alone", None, 0, 100)]).is_empty());
    let root = || lasting("root", None, 0, 100);
    let steps = || {
        vec![
            root(),
            lasting("a", Some("root"), 10, 60),
            lasting("b", Some("root"), 20, 30),
            lasting("c", Some("root"), 75, 90),
        ]
    };
    assert_eq!(gaps(steps()), [(0, 10), (60, 75), (90, 100)]);
    assert_eq!(at_least(10_001, steps()), [(60, 75)]);
    // An open row runs on, and the first row leaves no gap before it.
    let mut open = lasting("open", Some("root"), 40, 0);
    open.end = None;
    assert_eq!(gaps(vec![root(), open]), [(0, 40)]);
}

#[test]
fn own_time_is_what_no_child_covers() {
    let mut open = lasting("open", Some("busy"), 80, 0);
    open.end = None;
    let outline = Outline::new(vec![
        lasting("root", None, 0, 100),
        // Side by side, one within the other, and beyond the end of the parent.
        lasting("a", Some("root"), 10, 40),
        lasting("b", Some("root"), 20, 30),
        lasting("c", Some("root"), 35, 50),
        lasting("d", Some("root"), 90, 140),
        // Descendants of a child do not count.
        lasting("e", Some("a"), 60, 70),
        lasting("busy", None, 0, 100),
        open,
        lasting("leaf", None, 0, 100),
    ]);
    let own = |id: &str| outline.self_time_us(outline.find(id).unwrap());
    assert_eq!(own("root"), Some(50_000));
    assert_eq!(own("a"), Some(30_000));
    assert_eq!(own("busy"), Some(80_000));
    assert_eq!((own("open"), own("leaf"), own("b")), (None, None, None));
}

#[test]
fn children_follow_their_parent_by_start() {
    let rows = shown(&[("b", Some("a")), ("a", None), ("c", Some("b")), ("d", Some("a"))]);
    let expected = [("a", 0), ("b", 1), ("c", 2), ("d", 1)];
    assert_eq!(rows, expected.map(|(id, depth)| (id.to_owned(), depth, None)));
}

#[test]
fn orphans_and_cycles_are_on_the_top_level() {
    let rows = shown(&[
        ("root", None),
        ("orphan", Some("gone")),
        ("x", Some("z")),
        ("y", Some("x")),
        ("z", Some("y")),
        ("below", Some("y")),
        ("self", Some("self")),
    ]);
    let expected = [
        ("root", 0, None),
        ("orphan", 0, Some(ParentFault::Orphan)),
        ("x", 0, Some(ParentFault::Cycle)),
        ("y", 0, Some(ParentFault::Cycle)),
        ("below", 1, None),
        ("z", 0, Some(ParentFault::Cycle)),
        ("self", 0, Some(ParentFault::Cycle)),
    ];
    assert_eq!(rows, expected.map(|(id, depth, odd)| (id.to_owned(), depth, odd)));
}

fn chain(n: usize) -> Outline {
    let parent = |at: usize| at.checked_sub(1).map(|at| format!("o{at}"));
    let observations = (0..n).map(|at| observation(&format!("o{at}"), parent(at).as_deref(), 0));
    Outline::new(observations.collect())
}

#[test]
fn a_chain_of_any_length_is_walked() {
    let outline = chain(20_000);
    let rows = outline.rows();
    assert_eq!((rows.len(), rows[19_999].depth, rows[0].n_below), (20_000, 19_999, 19_999));
    let last = outline.find("o19999");
    assert_eq!(last, Some(19_999));
    // By default two levels are open, and the way to what is selected.
    assert_eq!(outline.view(&Folds::default(), None).len(), 3);
    let view = outline.view(&Folds::default(), last);
    assert_eq!((view.len(), view.index_of(19_999)), (20_000, Some(19_999)));
}

#[test]
fn a_collapsed_row_stays_collapsed_for_any_selection() {
    let outline = chain(300);
    let closed =
        |id: &str| outline.toggled(Folds::default(), Some(250), FoldTarget::Row(id.to_owned()));
    let folds = closed("o100");
    assert_eq!(folds.closed, [FoldTarget::Row("o100".to_owned())]);
    let view = outline.view(&folds, Some(250));
    assert_eq!((view.len(), view.index_of(250)), (101, Some(100)));
    assert_eq!(
        outline.toggled(folds.clone(), None, FoldTarget::Row("o100".to_owned())).open.len(),
        1
    );
    assert_eq!(outline.view(&outline.revealed(folds, 250), Some(250)).len(), 251);
    assert_eq!(
        outline.toggled(Folds::default(), None, FoldTarget::Row("none".to_owned())),
        Folds::default()
    );
    let mut many = Folds::default();
    for at in 0..1_000 {
        many.set(FoldTarget::Row(format!("o{at}")), at % 2 == 0);
    }
    assert_eq!((many.open.len(), many.closed.len()), (MAX_FOLDS, MAX_FOLDS));
    assert!(many.forgot_open && many.forgot_closed);
    assert!(many.open.contains(&FoldTarget::Row("o998".to_owned())));
}

#[test]
fn a_chain_expanded_row_by_row_is_one_mark_and_stays_expanded_above_collapsed_rows() {
    let outline = chain(1_500);
    let row = |at: usize| FoldTarget::Row(format!("o{at}"));
    let n_lines = |folds: &Folds| outline.view(folds, None).len();
    let mut folds = Folds::default();
    for at in 2..1_499 {
        folds = outline.toggled(folds, None, row(at));
        assert_eq!((folds.open.as_slice(), n_lines(&folds)), (&[row(at)][..], at + 2));
    }
    let folds = outline.toggled(folds, None, row(1_498));
    assert_eq!(folds.closed, [row(1_498)]);
    assert_eq!((folds.open.as_slice(), n_lines(&folds)), (&[row(1_497)][..], 1_499));
    let closed = outline.toggled(folds, None, row(700));
    assert_eq!(n_lines(&closed), 701);
    let again = outline.toggled(closed, None, row(700));
    assert_eq!((again.open.as_slice(), n_lines(&again)), (&[row(1_497)][..], 1_499));
    assert!(!again.forgot_open && !again.forgot_closed);
}

#[test]
fn above_fifty_marks_the_oldest_is_dropped_and_reported() {
    let mut observations = vec![observation("root", None, 0)];
    for at in 0..80 {
        let id = |kind: &str| format!("{kind}{at}");
        observations.push(observation(&id("a"), Some("root"), at));
        observations.push(observation(&id("b"), Some(&id("a")), at));
        observations.push(observation(&id("c"), Some(&id("b")), at));
        observations.push(observation(&id("d"), Some(&id("c")), at));
    }
    let outline = Outline::new(observations);
    let n_lines = |folds: &Folds| outline.view(folds, None).len();
    let row = |kind: &str, at: usize| FoldTarget::Row(format!("{kind}{at}"));
    let mut folds = Folds::default();
    let n_default = n_lines(&folds);
    for at in 0..MAX_FOLDS {
        folds = outline.toggled(folds, None, row("b", at));
        // The mark of the row below covers both.
        folds = outline.toggled(folds, None, row("c", at));
    }
    assert_eq!(n_lines(&folds), n_default + 2 * MAX_FOLDS);
    assert!(!folds.forgot_open && folds.open.len() == MAX_FOLDS);
    let folds = outline.toggled(folds, None, row("b", MAX_FOLDS));
    assert!(folds.forgot_open && !folds.forgot_closed);
    assert_eq!(folds.open.first(), Some(&row("c", 1)));
    assert_eq!(n_lines(&folds), n_default + 2 * MAX_FOLDS - 1);
}

/// A root with `n` chunks, each with one row below it.
fn chunks(n: usize) -> Outline {
    let mut observations = vec![observation("root", None, 0)];
    for at in 0..n {
        let id = format!("c{at:05}");
        let mut chunk = observation(&id, Some("root"), 1 + at as i64);
        chunk.name = "embed chunk".to_owned();
        chunk.kind = ObservationKind::Embedding;
        chunk.end = Some(chunk.start.plus_millis(1 + at as i64));
        chunk.tokens = Some(2);
        if at % 1_000 == 0 {
            chunk.level = Level::Error;
        }
        observations.push(observation(&format!("b{at:05}"), Some(&id), 1 + at as i64));
        observations.push(chunk);
    }
    observations.push(observation("z", Some("root"), 1_000_000));
    Outline::new(observations)
}

#[test]
fn similar_adjacent_rows_are_one_group_until_it_is_expanded() {
    let outline = chunks(4_000);
    let run = &outline.runs()[0];
    assert_eq!((outline.runs().len(), run.n, run.n_errors, run.tokens), (1, 4_000, 4, Some(8_000)));
    assert_eq!((run.median_us, run.p95_us), (Some(2_000_000), Some(3_800_000)));
    let view = outline.view(&Folds::default(), None);
    assert_eq!(visible(&view), ["root", "c00000+", "z"]);
    assert_eq!(view.map(200).iter().map(|bucket| bucket.n_errors).sum::<u32>(), 4);

    let folds = outline.toggled(Folds::default(), None, FoldTarget::Run("c00000".to_owned()));
    let view = outline.view(&folds, None);
    assert_eq!(view.len(), 1 + 1 + 2 * 4_000 + 1);
    assert_eq!(visible(&view)[..5], ["root", "c00000+", "c00000", "b00000", "c00001"]);
    let depths: Vec<u32> = view.window(0, 4).iter().map(|line| line.depth).collect();
    assert_eq!(depths, [0, 1, 2, 3]);
    assert_eq!(view.map(200).iter().map(|bucket| bucket.n_errors).sum::<u32>(), 4);

    let ungrouped = Folds { is_ungrouped: true, ..Folds::default() };
    assert_eq!(outline.view(&ungrouped, None).len(), outline.rows().len());
    // The group that contains the selected row is open.
    let selected = outline.find("b03999");
    let view = outline.view(&Folds::default(), selected);
    let index = view.index_of(selected.unwrap()).unwrap();
    assert_eq!(visible(&view)[index], "b03999");
    assert_eq!(chunks(SHORTEST).runs(), []);
}

#[test]
fn errors_are_found_in_both_directions() {
    let outline = chunks(2_000);
    let id = |at: Option<usize>| at.map(|at| outline.rows()[at].id().to_owned());
    let first = outline.next_error(None, false);
    let second = outline.next_error(first, false);
    assert_eq!(id(first).as_deref(), Some("c00000"));
    assert_eq!(id(second).as_deref(), Some("c01000"));
    assert_eq!(outline.next_error(second, false), None);
    assert_eq!(outline.next_error(None, true), second);
    assert_eq!(outline.next_error(second, true), first);
    assert_eq!(outline.next_error(first, true), None);
}

/// Observations with arbitrary parents, names of few kinds, and what of them is folded by hand.
fn forests() -> impl Strategy<Value = (Outline, Folds, Option<usize>)> {
    let rows = prop::collection::vec((0_usize..80, 0_u8..3, any::<bool>()), 0..70);
    let folds = prop::collection::vec((0_usize..70, any::<bool>()), 0..6);
    (rows, folds, 0_usize..140, 0_usize..4).prop_map(|(rows, folds, selected, copies)| {
        let mut observations = Vec::new();
        for (at, (parent, name, is_error)) in rows.iter().enumerate() {
            let mut one = observation(&format!("o{at}"), Some(&format!("o{parent}")), at as i64);
            one.name = format!("name {name}");
            if *is_error {
                one.level = Level::Error;
            }
            observations.push(one);
        }
        // Enough for groups.
        for at in 0..copies * 1_000 {
            let parent = format!("o{}", at / 100);
            let mut one = observation(&format!("c{at}"), Some(&parent), 100 + at as i64);
            one.name = format!("copy {}", at % 97 / 40);
            observations.push(one);
        }
        let outline = Outline::new(observations);
        let mut by_hand = Folds::default();
        for (at, is_open) in folds {
            by_hand.set(FoldTarget::Row(format!("o{at}")), is_open);
            by_hand.set(FoldTarget::Run(format!("c{at}")), is_open);
        }
        let selected = (selected < outline.rows().len()).then_some(selected);
        (outline, by_hand, selected)
    })
}

proptest! {
    #[test]
    fn a_level_filter_keeps_matches_and_ancestors_and_counts_the_rest(
        (outline, by_hand, _) in forests()
    ) {
        let folds = Folds { min: Some(Level::Error), closed: Vec::new(), ..by_hand };
        let view = outline.view(&folds, None);
        let shown: HashSet<u32> = view.window(0, view.len()).iter().map(|line| line.row).collect();
        prop_assert_eq!(shown.len() + view.n_hidden(), outline.rows().len());
        for (at, row) in outline.rows().iter().enumerate() {
            let is_kept = row.level == Level::Error || 0 < row.n_errors_below;
            prop_assert_eq!(shown.contains(&position(at)), is_kept);
        }
    }

    #[test]
    fn a_kind_and_level_filter_keeps_matches_and_ancestors(
        (outline, by_hand, _) in forests(), n in 1_u32..4
    ) {
        // Every n-th row is of the kind.
        let mut outline = outline;
        for (at, row) in outline.rows.iter_mut().enumerate() {
            if position(at).is_multiple_of(n) {
                row.kind = ObservationKind::Tool;
            }
        }
        let kinds = vec![ObservationKind::Tool];
        let folds = Folds { min: Some(Level::Error), kinds, closed: Vec::new(), ..by_hand };
        let view = outline.view(&folds, None);
        let shown: HashSet<u32> = view.window(0, view.len()).iter().map(|line| line.row).collect();
        prop_assert_eq!(shown.len() + view.n_hidden(), outline.rows().len());
        let is_asked = |row: &OutlineNode| row.kind == ObservationKind::Tool && row.level == Level::Error;
        for (at, row) in outline.rows().iter().enumerate() {
            let leads = outline.rows()[at..row.behind(at)].iter().any(is_asked);
            prop_assert_eq!(shown.contains(&position(at)), leads);
        }
    }

    #[test]
    fn each_observation_has_one_place((outline, _, _) in forests()) {
        let ids: HashSet<&str> = outline.rows().iter().map(OutlineNode::id).collect();
        prop_assert_eq!(ids.len(), outline.rows().len());
        for (at, row) in outline.rows().iter().enumerate() {
            prop_assert_eq!(outline.find(row.id()), Some(at));
            let parent = row.parent.map(|parent| &outline.rows()[parent as usize]);
            prop_assert_eq!(row.depth, parent.map_or(0, |parent| parent.depth + 1));
            let below = &outline.rows()[at + 1..row.behind(at)];
            prop_assert!(below.iter().all(|other| other.depth > row.depth));
            let next = outline.rows().get(row.behind(at));
            prop_assert!(next.is_none_or(|next| next.depth <= row.depth));
            let is_error = |row: &&OutlineNode| row.level == Level::Error;
            prop_assert_eq!(row.n_errors_below as usize, below.iter().filter(is_error).count());
        }
    }

    #[test]
    fn consecutive_windows_cover_the_outline((outline, folds, selected) in forests(), n in 1_usize..50) {
        let view = outline.view(&folds, selected);
        let starts = (0..view.len()).step_by(n);
        let windows: Vec<OutlineLine> = starts.flat_map(|at| view.window(at, n).to_vec()).collect();
        prop_assert_eq!(windows.as_slice(), view.window(0, usize::MAX));
        prop_assert!(view.window(view.len(), n).is_empty());
        for (index, line) in view.window(0, usize::MAX).iter().enumerate() {
            let parent = view.parents(index, 1)[0];
            let depth = parent.map(|parent| view.window(parent, 1)[0].depth);
            prop_assert_eq!(line.depth, depth.map_or(0, |depth| depth + 1));
            prop_assert!(parent.is_none_or(|parent| parent < index));
        }
    }

    #[test]
    fn a_collapsed_group_hides_its_descendants((outline, folds, selected) in forests()) {
        let view = outline.view(&folds, selected);
        let lines = view.window(0, usize::MAX);
        let mut expected = 0;
        for line in lines {
            let at = line.row as usize;
            let row = &outline.rows()[at];
            prop_assert_eq!(at, expected);
            expected = match (line.run, line.is_open) {
                (Some(run), Some(false)) => outline.runs()[run as usize].behind as usize,
                (Some(_), _) => at,
                (None, Some(false)) => row.behind(at),
                (None, _) => at + 1,
            };
        }
        prop_assert_eq!(expected, outline.rows().len());
    }

    #[test]
    fn collapsing_a_row_hides_exactly_its_descendants((outline, _, _) in forests(), at in 0_usize..70) {
        let ungrouped = Folds { is_ungrouped: true, ..Folds::default() };
        let all = outline.rows().iter().map(|row| FoldTarget::Row(row.id().to_owned())).collect();
        let open = Folds { open: all, ..ungrouped };
        let Some(row) = outline.rows().get(at) else { return Ok(()) };
        prop_assert_eq!(outline.view(&open, None).len(), outline.rows().len());
        let mark = FoldTarget::Row(row.id().to_owned());
        let mut closed = open.clone();
        closed.open.retain(|one| *one != mark);
        closed.closed.push(mark);
        let visible: HashSet<u32> = outline.view(&closed, None).window(0, usize::MAX).iter().map(|line| line.row).collect();
        for other in 0..outline.rows().len() {
            let is_below = at < other && other < row.behind(at);
            prop_assert_eq!(visible.contains(&(other as u32)), !is_below);
        }
    }

    #[test]
    fn toggling_a_row_changes_it_alone_and_toggling_twice_changes_nothing(
        (outline, folds, selected) in forests(), nth in any::<prop::sample::Index>()
    ) {
        let lines = outline.view(&folds, selected).window(0, usize::MAX).to_vec();
        prop_assume!(!lines.is_empty());
        let line = lines[nth.index(lines.len())];
        let id = outline.rows()[line.row as usize].id().to_owned();
        let mark = match line.run {
            Some(_) => FoldTarget::Run(id),
            None => FoldTarget::Row(id),
        };
        let once = outline.toggled(folds, selected, mark.clone());
        let view = outline.view(&once, selected);
        let is_line = |other: &&OutlineLine| (other.row, other.run) == (line.row, line.run);
        let now = view.window(0, usize::MAX).iter().find(is_line);
        prop_assert_eq!(now.map(|now| now.is_open), Some(line.is_open.map(|is_open| !is_open)));
        let twice = outline.toggled(once, selected, mark);
        let view = outline.view(&twice, selected);
        prop_assert_eq!(view.window(0, usize::MAX), lines.as_slice());
    }

    #[test]
    fn the_selected_row_is_visible_unless_it_was_folded_away((outline, folds, selected) in forests()) {
        let Some(selected) = selected else { return Ok(()) };
        let folds = outline.revealed(folds, selected);
        let view = outline.view(&folds, Some(selected));
        let index = view.index_of(selected).unwrap();
        let line = view.window(index, 1)[0];
        prop_assert_eq!((line.row as usize, line.run), (selected, None));
    }

    #[test]
    fn groups_conserve_counts((outline, folds, selected) in forests()) {
        for run in outline.runs() {
            let (first, behind) = (run.first as usize, run.behind as usize);
            let head = &outline.rows()[first];
            let members: Vec<&OutlineNode> = outline.rows()[first..behind]
                .iter()
                .filter(|row| row.depth == head.depth)
                .collect();
            prop_assert_eq!(members.len(), run.n as usize);
            prop_assert!(members.len() >= SHORTEST);
            let is_alike = |row: &&OutlineNode| row.parent == head.parent && row.name == head.name;
            prop_assert!(members.iter().all(is_alike));
            let below: u32 = members.iter().map(|row| row.n_below).sum();
            prop_assert_eq!(behind - first, members.len() + below as usize);
        }
        let n_errors = |view: &OutlineView<'_>| view.map(200).iter().map(|bucket| bucket.n_errors).sum::<u32>();
        let all = outline.rows().iter().filter(|row| row.level == Level::Error).count();
        prop_assert_eq!(n_errors(&outline.view(&folds, selected)) as usize, all);
    }
}

#[test]
fn a_missing_cost_differs_from_a_cost_of_zero() {
    let mut observations: Vec<ObservationSummary> =
        [("agent", None), ("call", Some("agent")), ("tool", Some("agent"))]
            .into_iter()
            .zip(0..)
            .map(|((id, parent), at)| observation(id, parent, at))
            .collect();
    let unpriced = |observations: &[ObservationSummary]| -> Vec<bool> {
        let outline = Outline::new(observations.to_vec());
        outline.rows().iter().map(|row| row.is_unpriced).collect()
    };
    assert_eq!(unpriced(&observations), [false; 3]);
    // Nothing below the agent uses a model, so that it has to have called the one it names itself.
    observations[0].model = Some("m".to_owned());
    assert_eq!(unpriced(&observations), [true, false, false]);
    observations[1].kind = ObservationKind::Generation;
    assert_eq!(unpriced(&observations), [false, true, false]);
    observations[2].tokens = Some(5);
    assert_eq!(unpriced(&observations), [false, true, true]);
    (observations[1].cost, observations[2].cost) = (Some(0.0), Some(0.5));
    assert_eq!(unpriced(&observations), [false; 3]);
}

#[test]
fn the_cost_of_a_group_counts_missing_prices() {
    let n = i64::try_from(GROUPED_ABOVE).unwrap() + 1;
    let call = |at: i64| ObservationSummary {
        name: "call".to_owned(),
        kind: ObservationKind::Generation,
        cost: (at % 2 == 0).then_some(0.5),
        ..observation(&format!("{at:05}"), None, at)
    };
    let outline = Outline::new((0..n).map(call).collect());
    let cost = outline.runs()[0].cost;
    assert_eq!((cost.n_priced, cost.n_unpriced), (1_001, 1_000));
    assert_eq!((cost.dollars, cost.exact()), (500.5, None));
}
