//! The keys: what each needs on a page, and says that it does. Pages carry the whole table; the script of the shell finds in
//! it what a key leads to, and shows the lines whose need is met, so that none is listed that does nothing.

/// A line of the list of keys.
#[derive(Debug)]
pub(crate) struct Key {
    /// What is printed on them: pressed one after the other, or each for itself.
    pub(crate) caps: &'static [&'static str],
    /// The key that follows, presses or focuses what the line needs; empty where another script knows more about it.
    pub(crate) acts: &'static str,
    /// A selector that fits something on the pages where the key works.
    pub(crate) needs: &'static str,
    pub(crate) text: &'static str,
}

/// A key that leads to what it needs.
const fn leads(key: &'static [&'static str; 1], needs: &'static str, text: &'static str) -> Key {
    Key { caps: key, acts: key[0], needs, text }
}

/// The same for a capital letter.
const fn shifted(
    key: &'static str,
    caps: &'static [&'static str; 2],
    needs: &'static str,
    text: &'static str,
) -> Key {
    Key { caps, acts: key, needs, text }
}

/// A key that a script of its pages listens to.
const fn heard(caps: &'static [&'static str], needs: &'static str, text: &'static str) -> Key {
    Key { caps, acts: "", needs, text }
}

/// Every key but those of the sections, under headings.
pub(crate) fn groups() -> [(&'static str, &'static [Key]); 2] {
    [("This page", &OF_SOME_PAGES), ("Everywhere", &EVERYWHERE)]
}

static OF_SOME_PAGES: [Key; 31] = [
    leads(&["/"], "[data-filter]", "Filter"),
    leads(&["t"], "[data-hot=t]", "Choose the time"),
    shifted("E", &["Shift", "E"], "[data-hot=E]", "Choose the environments"),
    leads(&["s"], "[data-hot=s]", "Order of the list"),
    leads(&["c"], "[data-hot=c]", "Columns of the list"),
    leads(&["v"], "[data-hot=v]", "Filters: values with their counts"),
    leads(&["n"], "#news a, #arrived:not([hidden]) a", "Show what is new"),
    heard(
        &["j", "k"],
        "main [data-rows]:not([data-plays]) .name, [role=treegrid]",
        "Next and previous row",
    ),
    heard(
        &["j", "k"],
        "[data-plays] .name",
        "Play: the next turn, also over the end of the page, and the one before",
    ),
    heard(
        &["↓", "↑"],
        "main [data-rows] .name",
        "From the row with the focus to the next and previous one",
    ),
    heard(&["Enter", "o"], "main [data-rows] .name", "Open the row, here or in a new tab"),
    heard(&["p"], "main [data-peek]", "Peek at the row, and close the peek"),
    heard(
        &["Shift", "Enter"],
        "main tr:has([data-peek]) [data-cell]",
        "Show the whole input and output of the row in place, and fold them",
    ),
    heard(&["x"], "[form=choice][type=checkbox]", "Choose the row"),
    heard(&["Shift", "X"], "[form=choice][type=checkbox]", "Choose all rows up to this one"),
    heard(&["a"], "[form=choice][type=checkbox]", "Choose all rows of the page, or none"),
    heard(&["b"], "main [data-mark]", "Bookmark the trace or the row, or take the bookmark away"),
    heard(
        &["←", "→"],
        ".grip",
        "On the end of a heading: the width of its column; ↑ ↓ another column, Delete the usual width",
    ),
    leads(&[">"], "a[rel=next]", "Next page, or next trace of the list"),
    leads(&["<"], "a[rel=prev]", "Previous page, or previous trace of the list"),
    leads(&["1"], "[data-aspect='1']", "Tree"),
    leads(&["2"], "[data-aspect='2']", "Timeline"),
    leads(&["5"], "[data-aspect='5']", "Thread"),
    leads(&["6"], "[data-aspect='6']", "Log"),
    heard(&["←", "→"], "[role=treegrid]", "Fold and unfold the row"),
    heard(&["e", "E"], "[role=treegrid]", "Next and previous error"),
    heard(&["n", "N"], "#sought", "Next and previous step found"),
    leads(&["w"], "[data-hot=w]", "Scores of the step, and why it has none"),
    heard(&["m"], ".split [role=separator]", "Widen the selected step, and back"),
    shifted("C", &["Shift", "C"], "[data-compare]", "Compare with another trace"),
    leads(&["f"], "[data-find]", "Find in this trace or session"),
];

static EVERYWHERE: [Key; 10] = [
    heard(&["Ctrl", "K"], "#palette", "Search by id or name, and go to a page"),
    heard(&["."], "main [data-command]", "What can be done on this page"),
    heard(&["Ctrl", "Enter"], "form", "Send the form that has the focus"),
    leads(&["z"], "#toast .told form button", "Undo what was done in the last minute"),
    heard(&["["], "#fold-rail", "Fold or unfold the sidebar"),
    heard(&["l"], "#live", "Look for what is new by itself, or not"),
    heard(&["Shift", "T"], "[data-zone=browser] time", "Times in UTC, and in your zone again"),
    heard(&["y"], "main", "Copy the address of the page"),
    heard(&["?"], "#keys", "Show this list"),
    heard(&["Esc"], "#keys", "Close what is open, leave a field"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_leads_to_two_things() {
        let all = groups().into_iter().flat_map(|(_, keys)| keys);
        let acts = all.map(|key| key.acts);
        let mut acts: Vec<_> = acts.filter(|key| !key.is_empty()).collect();
        let n = acts.len();
        acts.sort_unstable();
        acts.dedup();
        assert_eq!(acts.len(), n);
    }
}
