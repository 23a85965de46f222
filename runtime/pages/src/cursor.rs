//! Cursors of lists in addresses: a time in microseconds and an id.

use perpend_domain::list::Cursor;
use perpend_domain::time::Timestamp;

/// As the value of a parameter, before it is escaped.
pub(super) fn written(cursor: &Cursor) -> String {
    format!("{}.{}", cursor.at.as_micros(), cursor.id)
}

/// The cursor in a parameter; none when it is not one.
pub(super) fn read(raw: &str) -> Option<Cursor> {
    let (at, id) = raw.split_once('.')?;
    Some(Cursor {
        at: Timestamp::from_micros(at.parse().ok()?),
        id: id.to_owned(),
    })
}
