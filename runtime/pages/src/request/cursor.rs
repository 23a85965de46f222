//! Cursors of lists in URLs, written as `{microseconds}.{id}`.

use perpend_domain::list::Cursor;
use perpend_domain::time::Timestamp;
use perpend_views::{END, PageLinks, Parameter, ROWS, Text, with_query};

use crate::traces;

/// The value of a query parameter, before percent-encoding.
fn format_cursor(cursor: &Cursor) -> String {
    format!("{}.{}", cursor.at.as_micros(), cursor.id)
}

/// Inverse of [`format_cursor`]; absent for invalid text.
fn parse_cursor(raw: &str) -> Option<Cursor> {
    let (at, id) = raw.split_once('.')?;
    Some(Cursor::new(Timestamp::from_micros(at.parse().ok()?), id.to_owned()))
}

/// The cursor of a page and whether the page precedes it. `before=end` is the last page and has no cursor. An invalid
/// parameter adds a notice.
pub(crate) fn parse_position(
    after: &str,
    before: &str,
    notices: &mut Vec<Text>,
) -> (Option<Cursor>, bool) {
    if before == END {
        return (None, true);
    }
    let is_backwards = !before.is_empty();
    let (name, raw) = if is_backwards { ("before", before) } else { ("after", after) };
    let cursor = parse_cursor(raw);
    if cursor.is_none() && !raw.is_empty() {
        let fault = format!("`{name}` must be a cursor of this list; showing the first page.");
        notices.push(Text::from(fault));
    }
    let is_backwards = is_backwards && cursor.is_some();
    (cursor, is_backwards)
}

/// Rows per page of a list with a fixed order, and the query parameter for it unless it is the default.
pub(crate) fn page_size(
    (n, sort): (&str, &str),
    order: &str,
    notices: &mut Vec<Text>,
) -> (u32, Option<Parameter>) {
    let n = traces::params::rows(n.trim(), notices);
    if !sort.is_empty() {
        let sort: String = sort.chars().take(100).collect();
        let fault =
            format!("`sort` is not supported by this list, got `{sort}`; showing {order} first.");
        notices.push(Text::from(fault));
    }
    (n, (n != ROWS[0]).then(|| ("n".into(), n.to_string())))
}

/// URLs of the pages of a list.
pub(crate) struct ListLinks {
    pub(crate) path: String,
    /// Query parameters of all pages, without the cursor.
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

    /// Links to the pages with newer and older rows. If a search stopped before the page was full, `stopped` is where it
    /// continues in the same direction.
    pub(crate) fn ways(
        &self,
        [newer, older]: [Option<&Cursor>; 2],
        stopped: Option<&Cursor>,
        is_backwards: bool,
    ) -> PageLinks {
        let to = |label, cursor: Option<&Cursor>, is_backwards| {
            cursor.map(|cursor| (label, self.at(cursor, is_backwards)))
        };
        let resume =
            |is_same: bool| to("Continue search", stopped.filter(|_| is_same), is_backwards);
        PageLinks {
            previous: to("Newer", newer, true).or_else(|| resume(is_backwards)),
            next: to("Older", older, false).or_else(|| resume(!is_backwards)),
            last: older.map(|_| self.last()),
            ..PageLinks::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_size_is_a_parameter_and_an_unsupported_order_adds_a_notice() {
        let mut notices = Vec::new();
        let expected = Some(("n".into(), "100".to_owned()));
        let hundred = page_size(("100", ""), "the newest", &mut notices);
        assert_eq!(hundred, (100, expected));
        assert_eq!(page_size(("", ""), "the newest", &mut notices), (50, None));
        assert!(notices.is_empty(), "{notices:?}");
        let odd = ("abc", "foo");
        assert_eq!(page_size(odd, "the newest", &mut notices), (50, None));
        for (notice, start) in notices.iter().zip(["`n` ", "`sort` "]) {
            assert!(notice.raw().starts_with(start), "{notice}");
        }
        assert_eq!(notices.len(), 2);
    }

    #[test]
    fn a_cursor_survives_its_url() {
        let cursor = Cursor::new(Timestamp::from_micros(-5), "a.b&c ü".to_owned());
        let links = ListLinks { path: "/p".to_owned(), pairs: Vec::new() };
        let address = links.at(&cursor, false);
        let (_, raw) = address.split_once("?after=").unwrap();
        let raw = percent_encoding::percent_decode_str(raw).decode_utf8().unwrap();
        let mut notices = Vec::new();
        let mut read = |after: &str, before: &str| parse_position(after, before, &mut notices);
        assert_eq!(read(&raw, ""), (Some(cursor.clone()), false));
        assert_eq!(read("", &raw), (Some(cursor), true));
        assert_eq!(read("", ""), (None, false));
        assert_eq!(links.last(), "/p?before=end");
        assert_eq!(read("", "end"), (None, true));
        assert_eq!(read("yesterday", ""), (None, false));
        assert_eq!(read("", "yesterday"), (None, false));
        let names = ["`after` ", "`before` "];
        assert_eq!(notices.len(), names.len());
        for (notice, name) in notices.iter().zip(names) {
            assert!(notice.raw().starts_with(name), "{notice}");
        }
    }
}
