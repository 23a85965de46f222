//! Windows of the rows of a trace.

use std::collections::HashMap;

use perpend_domain::observation::Level;
use perpend_domain::outline::{FoldTarget, Folds, MAX_FOLDS};
use perpend_domain::score::ScoreValue;

use crate::lists::chips::tests::scored;
use crate::pages_tests::{HOSTILE, Shown, checked, outline, trace_page};
use crate::trace::sample_observations::observation;
use crate::*;

#[test]
fn the_fragment_of_rows_is_a_window_and_groups_are_rows() {
    let mut observations = vec![observation("root", None, 0, 9_000)];
    observations.extend((0..4_000).map(|i| {
        let mut chunk = observation(&format!("c{i:04}"), Some("root"), i, 1 + i);
        chunk.name = HOSTILE.to_owned();
        chunk.level = if i < 3 { Level::Error } else { Level::Default };
        chunk
    }));
    let outline = outline(&observations);
    let page = |folds: &Folds, n: usize| {
        let view = outline.view(folds, None);
        checked(&RowsPage::new(&RowsInput {
            view: &view,
            folds,
            at: 1,
            n,
            anchor: Some(7),
            revision: 3,
            selected: None,
            n_scores: &HashMap::new(),
            chips: &HashMap::new(),
            view_params: &ViewParams::default(),
            with_map: true,
        }))
    };
    let html = page(&Folds::default(), 9_999);
    assert_eq!(html.matches("role=\"row\"").count(), 1);
    for part in ["×4,000", "p50 2.00 s · p95 3.80 s", "3 errors", "&toggle-run=c0000"] {
        assert!(html.contains(part), "{part} in {html}");
    }
    assert!(html.contains("data-revision=\"3\"") && html.contains("data-anchor=\"7\""));
    assert!(html.contains("data-count=\"2\"") && !html.contains("class=\"map\""));
    let mut folds = Folds::default();
    folds.set(FoldTarget::Run("c0000".to_owned()), true);
    let html = page(&folds, 9_999);
    assert_eq!(html.matches("role=\"row\"").count(), ROW_WINDOW);
    assert!(html.contains("data-rest=\"&open-run=c0000\"") && html.contains("class=\"map\""));
    assert!(!html.contains("data-forgotten"));
    for at in 0..MAX_FOLDS {
        folds.set(FoldTarget::Row(format!("c{at:04}")), true);
    }
    let html = page(&folds, 1);
    assert!(!html.contains("open-run=c0000"));
    let notice = "data-forgotten=\"Only the last 50 expanded rows are kept; earlier ones are collapsed again.\"";
    assert!(html.contains(notice), "{html}");
}

#[test]
fn selected_columns_replace_the_default_and_the_timeline_keeps_its_bars() {
    let outline = outline(&[observation("root", None, 0, 10)]);
    let classes = |columns: &[RowColumn], trace_view| {
        let view_params =
            ViewParams { columns: columns.to_vec(), trace_view, ..ViewParams::default() };
        crate::trace::rows::column_classes(&view_params, &outline, "1", "$1.00")
    };
    let both = [RowColumn::SelfTime, RowColumn::Cost];
    assert_eq!(classes(&[], TraceView::Tree), "");
    let tree = classes(&both, TraceView::Tree);
    assert_eq!(tree, " by-hand no-time no-took no-tok");
    assert_eq!(classes(&both, TraceView::Time), " by-hand no-took no-tok");
}

#[test]
fn a_row_has_its_scores_and_its_self_time() {
    let observations =
        [observation("root", None, 0, 1_000), observation("below", Some("root"), 100, 400)];
    let outline = outline(&observations);
    let score = scored("polite", ScoreValue::Boolean(true), Some("root"));
    let folds = Folds::default();
    let view = outline.view(&folds, None);
    let html = checked(&RowsPage::new(&RowsInput {
        view: &view,
        folds: &folds,
        at: 0,
        n: ROW_WINDOW,
        anchor: None,
        revision: 1,
        selected: None,
        n_scores: &HashMap::new(),
        chips: &HashMap::from([("root".to_owned(), score_chips(&[&score]))]),
        view_params: &ViewParams::default(),
        with_map: false,
    }));
    let chip = "<span class=\"chip good\"><bdi>polite</bdi> <b><bdi>true</bdi></b></span>";
    assert_eq!(html.matches(chip).count(), 1, "{html}");
    // The second row is a leaf.
    for own in ["600 ms", "400 ms"] {
        let cell = format!("<span class=\"num own\" role=\"gridcell\">{own}</span>");
        assert!(html.contains(&cell), "{cell} in {html}");
    }
}

#[test]
fn the_slowest_observation_is_shown_unless_there_is_a_tie() {
    let page = |last_took: i64| {
        let mut observations = vec![observation("root", None, 0, 1_000)];
        observations.extend((0..8).map(|i| {
            let took = if i == 7 { last_took } else { 50 };
            observation(&format!("s{i}"), Some("root"), i * 100, took)
        }));
        checked(&trace_page(&outline(&observations), Shown::default()))
    };
    assert!(page(90).contains("<span>Slowest observation</span>"));
    assert!(!page(50).contains("<span>Slowest observation</span>"));
}
