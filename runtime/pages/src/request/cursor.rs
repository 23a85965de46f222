//! Cursors of lists in URLs, written as `{microseconds}.{id}` unless readers choose the order of the list.

use perpend_domain::list::{Cursor, ListPosition};
use perpend_domain::time::Timestamp;
use perpend_views::{END, PageLinks, Parameter, ROWS, Text, with_query};

/// Characters of an invalid value that a notice repeats.
const MAX_ECHO: usize = 100;

/// The beginning of an invalid value, for notices.
pub(crate) fn truncated(raw: &str) -> String {
    raw.chars().take(MAX_ECHO).collect()
}

/// The value of a query parameter, before percent-encoding.
pub(crate) fn format_cursor(cursor: &Cursor) -> String {
    format!("{}.{}", cursor.at.as_micros(), cursor.id)
}

/// Inverse of [`format_cursor`]; absent for invalid text.
pub(crate) fn parse_cursor(raw: &str) -> Option<Cursor> {
    let (at, id) = raw.split_once('.')?;
    Some(Cursor::new(Timestamp::from_micros(at.parse().ok()?), id.to_owned()))
}

/// The position of a page by its parameters `after` and `before`. `before=end` is the last page and has no cursor. An invalid
/// parameter adds a notice; `of` is the scope of a cursor.
pub(crate) fn parse_position(
    ((after, before), of): ((&str, &str), &str),
    parse: impl Fn(&str) -> Option<Cursor>,
    notices: &mut Vec<Text>,
) -> ListPosition {
    if before == END {
        return ListPosition::end();
    }
    let is_backwards = after.is_empty() && !before.is_empty();
    let (name, raw) = if is_backwards { ("before", before) } else { ("after", after) };
    let cursor = parse(raw);
    if cursor.is_none() && !raw.is_empty() {
        let fault = format!(
            "`{name}` must be a cursor of this {of}, got `{}`; showing the first page.",
            truncated(raw)
        );
        notices.push(Text::from(fault));
    }
    let is_backwards = is_backwards && cursor.is_some();
    ListPosition { cursor, is_backwards }
}

/// Rows per page, and the query parameter for it unless it is the default.
pub(crate) fn page_size(raw: &str, notices: &mut Vec<Text>) -> (u32, Option<Parameter>) {
    let raw = raw.trim();
    let read = raw.parse().ok().filter(|n| ROWS.contains(n));
    let n = read.unwrap_or(ROWS[0]);
    if read.is_none() && !raw.is_empty() {
        let fault =
            format!("`n` must be one of 25, 50, 100; got `{}`. Showing {n} rows.", truncated(raw));
        notices.push(Text::from(fault));
    }
    (n, (n != ROWS[0]).then(|| ("n".into(), n.to_string())))
}

/// Adds a notice about an order if the list has a fixed one. `order` are the rows that are shown first.
pub(crate) fn reject_order(sort: &str, order: &str, notices: &mut Vec<Text>) {
    if !sort.is_empty() {
        let sort = truncated(sort);
        let fault =
            format!("`sort` is not supported by this list, got `{sort}`; showing {order} first.");
        notices.push(Text::from(fault));
    }
}

/// URLs of the pages of a list.
pub(crate) struct ListLinks {
    pub(crate) path: String,
    /// Query parameters of all pages, without the cursor.
    pub(crate) pairs: Vec<Parameter>,
    /// Labels of the links to the previous and to the next page.
    pub(crate) labels: [&'static str; 2],
    pub(crate) cursor_text: fn(&Cursor) -> String,
}

impl ListLinks {
    /// Links of a list from newest to oldest.
    #[cfg(test)]
    fn by_time(path: &str) -> Self {
        let labels = ["Newer", "Older"];
        Self { path: path.to_owned(), pairs: Vec::new(), labels, cursor_text: format_cursor }
    }

    /// Links with other query parameters.
    pub(crate) fn with_pairs(&self, pairs: Vec<Parameter>) -> Self {
        Self { path: self.path.clone(), pairs, ..*self }
    }

    /// URL of the page at a position.
    pub(crate) fn page(&self, position: &ListPosition) -> String {
        match &position.cursor {
            Some(cursor) => self.at(cursor, position.is_backwards),
            None if position.is_backwards => self.last(),
            None => self.first(),
        }
    }

    pub(crate) fn first(&self) -> String {
        with_query(&self.path, &self.pairs)
    }

    pub(crate) fn last(&self) -> String {
        let pairs = [self.pairs.as_slice(), &[("before".into(), END.to_owned())]].concat();
        with_query(&self.path, &pairs)
    }

    pub(crate) fn at(&self, cursor: &Cursor, is_backwards: bool) -> String {
        let name = if is_backwards { "before" } else { "after" };
        let pairs = [self.pairs.as_slice(), &[(name.into(), (self.cursor_text)(cursor))]].concat();
        with_query(&self.path, &pairs)
    }

    /// Links to the previous and the next page. If a search stopped before the page was full, `resume` is the URL that continues
    /// it in the same direction.
    pub(crate) fn ways(
        &self,
        [newer, older]: [Option<&Cursor>; 2],
        resume: Option<&str>,
        is_backwards: bool,
    ) -> PageLinks {
        let to = |label, cursor: Option<&Cursor>, is_backwards| {
            cursor.map(|cursor| (label, self.at(cursor, is_backwards)))
        };
        let resume = |is_same: bool| {
            resume.filter(|_| is_same).map(|href| ("Continue search", href.to_owned()))
        };
        PageLinks {
            previous: to(self.labels[0], newer, true).or_else(|| resume(is_backwards)),
            next: to(self.labels[1], older, false).or_else(|| resume(!is_backwards)),
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
        assert_eq!(page_size("100", &mut notices), (100, expected));
        assert_eq!(page_size("", &mut notices), (50, None));
        reject_order("", "the newest", &mut notices);
        assert!(notices.is_empty(), "{notices:?}");
        assert_eq!(page_size("abc", &mut notices), (50, None));
        reject_order("foo", "the newest", &mut notices);
        for (notice, start) in notices.iter().zip(["`n` ", "`sort` "]) {
            assert!(notice.raw().starts_with(start), "{notice}");
        }
        assert_eq!(notices.len(), 2);
    }

    #[test]
    fn a_cursor_survives_its_url() {
        let cursor = Cursor::new(Timestamp::from_micros(-5), "a.b&c ü".to_owned());
        let links = ListLinks::by_time("/p");
        let address = links.at(&cursor, false);
        let (_, raw) = address.split_once("?after=").unwrap();
        let raw = percent_encoding::percent_decode_str(raw).decode_utf8().unwrap();
        let mut notices = Vec::new();
        let mut read = |after: &str, before: &str| {
            let position = parse_position(((after, before), "list"), parse_cursor, &mut notices);
            (position.cursor, position.is_backwards)
        };
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
