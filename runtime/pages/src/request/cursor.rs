//! Cursors of lists in addresses: a time in microseconds and an id.

use perpend_domain::list::Cursor;
use perpend_domain::time::Timestamp;
use perpend_views::{END, PageLinks, Parameter, ROWS, Text, with_query};

use crate::traces;

/// As the value of a parameter, before it is escaped.
fn format_cursor(cursor: &Cursor) -> String {
    format!("{}.{}", cursor.at.as_micros(), cursor.id)
}

/// The cursor in a parameter; none when it is not one.
fn read(raw: &str) -> Option<Cursor> {
    let (at, id) = raw.split_once('.')?;
    Some(Cursor { at: Timestamp::from_micros(at.parse().ok()?), id: id.to_owned() })
}

/// The cursor of an address, and whether the page is before it; the last page is before none. A notice names the parameter that is not a cursor.
pub(crate) fn parse_place(
    after: &str,
    before: &str,
    notices: &mut Vec<Text>,
) -> (Option<Cursor>, bool) {
    if before == END {
        return (None, true);
    }
    let is_backwards = !before.is_empty();
    let (name, raw) = if is_backwards { ("before", before) } else { ("after", after) };
    let cursor = read(raw);
    if cursor.is_none() && !raw.is_empty() {
        let fault =
            format!("{name}: this is not a cursor of this list, so this is its first page.");
        notices.push(Text::from(fault));
    }
    let is_backwards = is_backwards && cursor.is_some();
    (cursor, is_backwards)
}

/// How many rows a page of a list in one order has, and the parameter of addresses that says it; none for the usual number.
pub(crate) fn rows(
    (n, sort, columns): (&str, &str, &str),
    order: &str,
    notices: &mut Vec<Text>,
) -> (u32, Option<Parameter>) {
    let n = traces::params::rows(n.trim(), notices);
    if !sort.is_empty() {
        let said: String = sort.chars().take(100).collect();
        let fault = format!("sort: this list has one order and none by {said}: {order} first.");
        notices.push(Text::from(fault));
    }
    if !columns.is_empty() {
        let said: String = columns.chars().take(100).collect();
        let fault = format!("cols: this list always has the same columns; {said} is left out.");
        notices.push(Text::from(fault));
    }
    (n, (n != ROWS[0]).then(|| ("n".into(), n.to_string())))
}

/// The addresses of a list, newest first.
pub(crate) struct ListLinks {
    pub(crate) path: String,
    /// What all of them say, but for the place.
    pub(crate) pairs: Vec<Parameter>,
}

impl ListLinks {
    pub(crate) fn first(&self) -> String {
        with_query(&self.path, &self.pairs)
    }

    pub(crate) fn last(&self) -> String {
        let pairs = [self.pairs.as_slice(), &[("before".into(), END.to_owned())]].concat();
        with_query(&self.path, &pairs)
    }

    pub(crate) fn at(&self, cursor: &Cursor, is_backwards: bool) -> String {
        let name = if is_backwards { "before" } else { "after" };
        let pairs = [self.pairs.as_slice(), &[(name.into(), format_cursor(cursor))]].concat();
        with_query(&self.path, &pairs)
    }

    /// The pages before and behind one whose newer and older rows begin at these places; where a search stopped before that
    /// page was full, it goes on from there, in the same direction.
    pub(crate) fn ways(
        &self,
        [newer, older]: [Option<&Cursor>; 2],
        stopped: Option<&Cursor>,
        is_backwards: bool,
    ) -> PageLinks {
        let to = |label, cursor: Option<&Cursor>, is_backwards| {
            cursor.map(|cursor| (label, self.at(cursor, is_backwards)))
        };
        let go_on = |is_there: bool| to("Go on", stopped.filter(|_| is_there), is_backwards);
        PageLinks {
            before: to("Newer", newer, true).or_else(|| go_on(is_backwards)),
            behind: to("Older", older, false).or_else(|| go_on(!is_backwards)),
            last: older.map(|_| self.last()),
            ..PageLinks::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_rows_that_are_asked_for_and_says_what_it_cannot_have() {
        let mut notices = Vec::new();
        let kept = Some(("n".into(), "100".to_owned()));
        let hundred = rows(("100", "", ""), "the newest", &mut notices);
        assert_eq!(hundred, (100, kept));
        assert_eq!(rows(("", "", ""), "the newest", &mut notices), (50, None));
        assert!(notices.is_empty(), "{notices:?}");
        let odd = ("abc", "foo", "luck");
        assert_eq!(rows(odd, "the newest", &mut notices), (50, None));
        for (said, begins) in notices.iter().zip(["n: ", "sort: ", "cols: "]) {
            assert!(said.raw().starts_with(begins), "{said}");
        }
        assert_eq!(notices.len(), 3);
    }

    #[test]
    fn a_place_comes_back_from_its_address() {
        let cursor = Cursor { at: Timestamp::from_micros(-5), id: "a.b&c ü".to_owned() };
        let links = ListLinks { path: "/p".to_owned(), pairs: Vec::new() };
        let address = links.at(&cursor, false);
        let (_, raw) = address.split_once("?after=").unwrap();
        let raw = percent_encoding::percent_decode_str(raw).decode_utf8().unwrap();
        let mut notices = Vec::new();
        let mut read = |after: &str, before: &str| parse_place(after, before, &mut notices);
        assert_eq!(read(&raw, ""), (Some(cursor.clone()), false));
        assert_eq!(read("", &raw), (Some(cursor), true));
        assert_eq!(read("", ""), (None, false));
        assert_eq!(links.last(), "/p?before=end");
        assert_eq!(read("", "end"), (None, true));
        assert_eq!(read("yesterday", ""), (None, false));
        assert_eq!(read("", "yesterday"), (None, false));
        let named = ["after: ", "before: "];
        assert_eq!(notices.len(), named.len());
        for (said, name) in notices.iter().zip(named) {
            assert!(said.raw().starts_with(name), "{said}");
        }
    }
}
