//! Keyboard shortcuts. Pages contain the whole table. A script reads the element of each key from it, and lists only
//! shortcuts that work on the current page.

/// A keyboard shortcut.
#[derive(Debug)]
pub(crate) struct Shortcut {
    /// Labels of the keys.
    pub(crate) caps: &'static [&'static str],
    /// Key that activates or focuses the element of `needs`; empty if another script handles the key.
    pub(crate) acts: &'static str,
    /// CSS selector that matches an element on pages where the key works.
    pub(crate) needs: &'static str,
    pub(crate) text: &'static str,
}

/// A key that activates the element it needs.
const fn leads(
    key: &'static [&'static str; 1],
    needs: &'static str,
    text: &'static str,
) -> Shortcut {
    Shortcut { caps: key, acts: key[0], needs, text }
}

/// The same for a key with Shift.
const fn shifted(
    key: &'static str,
    caps: &'static [&'static str; 2],
    needs: &'static str,
    text: &'static str,
) -> Shortcut {
    Shortcut { caps, acts: key, needs, text }
}

/// A key that a script handles.
const fn heard(caps: &'static [&'static str], needs: &'static str, text: &'static str) -> Shortcut {
    Shortcut { caps, acts: "", needs, text }
}

/// All shortcuts except those of the sections, with headings.
pub(crate) fn groups() -> [(&'static str, &'static [Shortcut]); 2] {
    [("This page", &OF_SOME_PAGES), ("Everywhere", &EVERYWHERE)]
}

static OF_SOME_PAGES: [Shortcut; 31] = [
    leads(&["/"], "[data-filter]", "Filter"),
    leads(&["t"], "[data-hot=t]", "Set the time range"),
    shifted("E", &["Shift", "E"], "[data-hot=E]", "Set the environments"),
    leads(&["s"], "[data-hot=s]", "Sort the list"),
    leads(&["c"], "[data-hot=c]", "Choose columns"),
    leads(&["v"], "[data-hot=v]", "Open the filter values"),
    leads(&["n"], "#news a, #arrived:not([hidden]) a", "Show new items"),
    heard(
        &["j", "k"],
        "main [data-rows]:not([data-plays]) .name, [role=treegrid]",
        "Next and previous row",
    ),
    heard(&["j", "k"], "[data-plays] .name", "Next and previous turn, across pages"),
    heard(&["↓", "↑"], "main [data-rows] .name", "Next and previous row from the focused one"),
    heard(&["Enter", "o"], "main [data-rows] .name", "Open the row, in this or a new tab"),
    heard(&["p"], "main [data-peek]", "Open or close the peek of the row"),
    heard(
        &["Shift", "Enter"],
        "main tr:has([data-peek]) [data-cell]",
        "Expand or collapse the input and output of the row",
    ),
    heard(&["x"], "[form=choice][type=checkbox]", "Select the row"),
    heard(&["Shift", "X"], "[form=choice][type=checkbox]", "Select all rows up to this one"),
    heard(&["a"], "[form=choice][type=checkbox]", "Select all rows of the page, or none"),
    heard(&["b"], "main [data-mark]", "Add or remove the bookmark of the trace or row"),
    heard(
        &["←", "→"],
        ".grip",
        "On a column border: change the width; ↑ ↓ other columns, Delete resets the width",
    ),
    leads(&[">"], "a[rel=next]", "Next page, or next trace of the list"),
    leads(&["<"], "a[rel=prev]", "Previous page, or previous trace of the list"),
    leads(&["1"], "[data-aspect='1']", "Tree"),
    leads(&["2"], "[data-aspect='2']", "Timeline"),
    leads(&["5"], "[data-aspect='5']", "Thread"),
    leads(&["6"], "[data-aspect='6']", "Log"),
    heard(&["←", "→"], "[role=treegrid]", "Collapse and expand the row"),
    heard(&["e", "E"], "[role=treegrid]", "Next and previous error"),
    heard(&["n", "N"], "#sought", "Next and previous match"),
    leads(&["w"], "[data-hot=w]", "Scores of the observation and rules without a score"),
    heard(&["m"], ".split [role=separator]", "Widen or reset the detail pane"),
    shifted("C", &["Shift", "C"], "[data-compare]", "Compare with another trace"),
    leads(&["f"], "[data-find]", "Find in this trace or session"),
];

static EVERYWHERE: [Shortcut; 10] = [
    heard(&["Ctrl", "K"], "#palette", "Search by id or name, or open a page"),
    heard(&["."], "main [data-command]", "Actions of this page"),
    heard(&["Ctrl", "Enter"], "form", "Submit the focused form"),
    leads(&["z"], "#toast .told form button", "Undo the last change (within one minute)"),
    heard(&["["], "#fold-rail", "Collapse or expand the sidebar"),
    heard(&["l"], "#live", "Turn automatic updates on or off"),
    heard(
        &["Shift", "T"],
        "[data-zone=browser] time",
        "Switch times between UTC and your time zone",
    ),
    heard(&["y"], "main", "Copy the URL of the page"),
    heard(&["?"], "#keys", "Show this list"),
    heard(&["Esc"], "#keys", "Close the open panel or leave the field"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique() {
        let all = groups().into_iter().flat_map(|(_, keys)| keys);
        let acts = all.map(|key| key.acts);
        let mut acts: Vec<_> = acts.filter(|key| !key.is_empty()).collect();
        let n = acts.len();
        acts.sort_unstable();
        acts.dedup();
        assert_eq!(acts.len(), n);
    }
}
