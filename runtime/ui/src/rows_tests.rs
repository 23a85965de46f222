//! Windows of the rows of a trace.

use std::collections::HashMap;

use perpend_domain::observation::Level;
use perpend_outline::{Folds, MAX_FOLDS, Mark};

use crate::pages_tests::{HOSTILE, checked, outline};
use crate::steps_tests::observation;
use crate::*;

#[test]
fn rows_alone_are_a_window_too_and_groups_are_rows() {
    let mut steps = vec![observation("root", None, 0, 9_000)];
    steps.extend((0..4_000).map(|i| {
        let mut chunk = observation(&format!("c{i:04}"), Some("root"), i, 1 + i);
        chunk.name = HOSTILE.to_owned();
        chunk.level = if i < 3 { Level::Error } else { Level::Default };
        chunk
    }));
    let outline = outline(&steps);
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
            looking: &Looking::default(),
            with_map: true,
        }))
    };
    let html = page(&Folds::default(), 9_999);
    assert_eq!(html.matches("role=\"row\"").count(), 1);
    for part in [
        "×4,000",
        "median 2.00 s · p95 3.80 s",
        "3 errors",
        "&toggle-run=c0000",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
    assert!(html.contains("data-revision=\"3\"") && html.contains("data-anchor=\"7\""));
    assert!(html.contains("data-count=\"2\"") && !html.contains("class=\"map\""));
    let mut folds = Folds::default();
    folds.set(Mark::Run("c0000".to_owned()), true);
    let html = page(&folds, 9_999);
    assert_eq!(html.matches("role=\"row\"").count(), WINDOW);
    assert!(html.contains("data-rest=\"&open-run=c0000\"") && html.contains("class=\"map\""));
    assert!(!html.contains("data-forgotten"));
    for at in 0..MAX_FOLDS {
        folds.set(Mark::Row(format!("c{at:04}")), true);
    }
    let html = page(&folds, 1);
    assert!(!html.contains("open-run=c0000"));
    let said = "data-forgotten=\"Of more than 50 opened rows the first are folded again.\"";
    assert!(html.contains(said), "{html}");
}
