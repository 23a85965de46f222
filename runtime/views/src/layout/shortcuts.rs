//! Keyboard shortcuts. Pages contain the whole table. A script reads the element of each key from it, and lists only
//! shortcuts that work on the current page.

/// A keyboard shortcut.
#[derive(Debug)]
pub(crate) struct Shortcut {
    /// Labels of the keys.
    pub(crate) labels: &'static [&'static str],
    /// Key that activates or focuses the element of `selector`; empty if another script handles the key.
    pub(crate) key: &'static str,
    /// CSS selector that matches an element on pages where the key works.
    pub(crate) selector: &'static str,
    pub(crate) text: &'static str,
}

/// A key that activates the element it needs.
const fn activates(
    key: &'static [&'static str; 1],
    selector: &'static str,
    text: &'static str,
) -> Shortcut {
    Shortcut { labels: key, key: key[0], selector, text }
}

/// The same for a key with Shift.
const fn with_shift(
    key: &'static str,
    labels: &'static [&'static str; 2],
    selector: &'static str,
    text: &'static str,
) -> Shortcut {
    Shortcut { labels, key, selector, text }
}

/// A key that a script handles.
const fn scripted(
    labels: &'static [&'static str],
    selector: &'static str,
    text: &'static str,
) -> Shortcut {
    Shortcut { labels, key: "", selector, text }
}

/// All shortcuts except those of the sections, with headings.
pub(crate) fn groups() -> [(&'static str, &'static [Shortcut]); 2] {
    [("This page", &PAGE_SHORTCUTS), ("Everywhere", &GLOBAL_SHORTCUTS)]
}

static PAGE_SHORTCUTS: [Shortcut; 36] = [
    activates(&["/"], "[data-filter]", "Filter"),
    activates(&["t"], "[data-hot=t]", "Set the time range"),
    with_shift("E", &["Shift", "E"], "[data-hot=E]", "Set the environments"),
    activates(&["s"], "[data-hot=s]", "Sort the list"),
    activates(&["c"], "[data-hot=c]", "Choose columns"),
    activates(&["v"], "[data-hot=v]", "Open the filter values"),
    activates(&["n"], "#news a, #arrived:not([hidden]) a", "Show new items"),
    scripted(
        &["j", "k"],
        "main [data-rows]:not([data-plays]) .name, [role=treegrid]",
        "Next and previous row",
    ),
    scripted(&["j", "k"], "[data-plays] .name", "Next and previous turn, across pages"),
    scripted(&["↓", "↑"], "main [data-rows] .name", "Next and previous row from the focused one"),
    scripted(&["Enter", "o"], "main [data-rows] .name", "Open the row, in this or a new tab"),
    scripted(&["p"], "main [data-peek]", "Open or close the peek of the row"),
    scripted(
        &["Shift", "Enter"],
        "main tr:has([data-peek]) [data-cell]",
        "Expand or collapse the input and output of the row",
    ),
    scripted(&["x"], "[form=choice][type=checkbox]", "Select the row"),
    scripted(&["Shift", "X"], "[form=choice][type=checkbox]", "Select all rows up to this one"),
    scripted(&["a"], "[form=choice][type=checkbox]", "Select all rows of the page, or none"),
    scripted(&["b"], "main [data-mark]", "Add or remove the bookmark of the trace or row"),
    scripted(
        &["←", "→"],
        ".grip",
        "On a column border: change the width; ↑ ↓ other columns, Delete resets the width",
    ),
    activates(&[">"], "a[rel=next]", "Next page, or next trace of the list"),
    activates(&["<"], "a[rel=prev]", "Previous page, or previous trace of the list"),
    activates(&["1"], "[data-aspect='1']", "Tree"),
    activates(&["2"], "[data-aspect='2']", "Timeline"),
    activates(&["5"], "[data-aspect='5']", "Thread"),
    activates(&["6"], "[data-aspect='6']", "Log"),
    scripted(&["←", "→"], "[role=treegrid]", "Collapse and expand the row"),
    scripted(&["e", "E"], "[role=treegrid]", "Next and previous error"),
    scripted(&["n", "N"], "#sought", "Next and previous match"),
    activates(&["d"], "[data-hot=d]", "Add the observation or trace to a dataset"),
    activates(&["w"], "[data-hot=w]", "Scores of the observation and rules without a score"),
    scripted(&["m"], ".split [role=separator]", "Widen or reset the detail pane"),
    with_shift("C", &["Shift", "C"], "[data-compare]", "Compare with another trace"),
    activates(&["f"], "[data-find]", "Find in this trace or session"),
    scripted(&["r", "R"], "tr[data-item~=regressed]", "Next and previous regression"),
    scripted(&["i"], "tr[data-item~=improved]", "Next improvement"),
    scripted(&["="], "[data-diff]", "Show or hide the differences of outputs"),
    scripted(&["b"], "a[data-base]", "Use the next run as the baseline"),
];

static GLOBAL_SHORTCUTS: [Shortcut; 10] = [
    scripted(&["Ctrl", "K"], "#palette", "Search by id or name, or open a page"),
    scripted(&["."], "main [data-command]", "Actions of this page"),
    scripted(&["Ctrl", "Enter"], "form", "Submit the focused form"),
    activates(&["z"], "#toast .told form button", "Undo the last change (within one minute)"),
    scripted(&["["], "#fold-rail", "Collapse or expand the sidebar"),
    scripted(&["l"], "#live", "Turn automatic updates on or off"),
    scripted(
        &["Shift", "T"],
        "[data-zone=browser] time",
        "Switch times between UTC and your time zone",
    ),
    scripted(&["y"], "main", "Copy the URL of the page"),
    scripted(&["?"], "#keys", "Show this list"),
    scripted(&["Esc"], "#keys", "Close the open panel or leave the field"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique() {
        let all = groups().into_iter().flat_map(|(_, keys)| keys);
        let keys = all.map(|shortcut| shortcut.key);
        let mut keys: Vec<_> = keys.filter(|key| !key.is_empty()).collect();
        let n = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), n);
    }
}
