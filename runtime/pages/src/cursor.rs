//! Cursors of lists in addresses: a time in microseconds and an id.

use perpend_domain::list::Cursor;
use perpend_domain::time::Timestamp;
use perpend_ui::Text;

/// As the value of a parameter, before it is escaped.
pub(super) fn written(cursor: &Cursor) -> String {
    format!("{}.{}", cursor.at.as_micros(), cursor.id)
}

/// The cursor in a parameter; none when it is not one.
fn read(raw: &str) -> Option<Cursor> {
    let (at, id) = raw.split_once('.')?;
    Some(Cursor {
        at: Timestamp::from_micros(at.parse().ok()?),
        id: id.to_owned(),
    })
}

/// The same; a notice names a parameter that is not one.
pub(super) fn asked(name: &str, raw: &str, notices: &mut Vec<Text>) -> Option<Cursor> {
    let cursor = read(raw);
    if cursor.is_none() && !raw.is_empty() {
        let fault =
            format!("{name}: this is not a cursor of this list, so this is its first page.");
        notices.push(Text::from(fault));
    }
    cursor
}
