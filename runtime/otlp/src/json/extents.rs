//! Where the large values of a JSON body end. A body is read once to check it; its readers then jump over a large value
//! instead of reading it again for each object and array that contains it.

/// Smaller values are read again.
const MIN_BYTES: usize = 4 << 10;
/// Values inside more objects and arrays are not indexed. The attribute of an event is inside of 12.
const MAX_DEPTH: usize = 12;

/// The first byte of each large value and the byte behind it, in the order of the body.
#[derive(Debug)]
pub(super) struct Extents(Vec<(usize, usize)>);

/// A value that is being checked.
#[derive(Clone, Copy)]
pub(super) struct Entry(Option<usize>);

impl Extents {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// A value begins at a nesting depth of `depth`.
    pub(super) fn begin(&mut self, depth: usize, start: usize) -> Entry {
        let entry = (depth <= MAX_DEPTH).then_some(self.0.len());
        if entry.is_some() {
            self.0.push((start, start));
        }
        Entry(entry)
    }

    /// A value ends.
    pub(super) fn end(&mut self, entry: Entry, end: usize) {
        let Some(extent) = entry.0.and_then(|entry| self.0.get_mut(entry)) else {
            return;
        };
        extent.1 = end;
        // Its own values are smaller still: they were removed before.
        if end - extent.0 < MIN_BYTES {
            self.0.pop();
        }
    }

    /// The byte behind the large value that begins here.
    pub(super) fn end_of(&self, start: usize) -> Option<usize> {
        let found = self.0.binary_search_by_key(&start, |extent| extent.0);
        Some(self.0.get(found.ok()?)?.1)
    }

    /// Memory that it took at most, while it grew.
    pub(super) const fn memory(&self) -> usize {
        self.0.capacity() * size_of::<(usize, usize)>() * 3 / 2
    }
}

#[cfg(test)]
thread_local! {
    /// Escapes that this thread read.
    pub(super) static N_ESCAPES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
