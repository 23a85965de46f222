//! Reads the contents of stored observations from their blocks.

use std::collections::{HashMap, HashSet};

use perpend_domain::accumulated::heap_bytes;
use perpend_domain::observation::Content;

use super::block;
use super::row::OwnRow;
use crate::{Error, Telemetry};
use perpend_db::{Record as _, Row, Scratch, Sized, charge, query, value_list};

/// How often a content that moved during a lookup is followed. Each move is another version of the same
/// observation.
const MAX_MOVES: u32 = 8;
/// Bytes of unpacked blocks that are read at a time; a single block may be larger.
const PART_BYTES: usize = 4 << 20;

static BLOCKS: Sized =
    Sized::new(|n| format!("SELECT seq, body FROM payloads WHERE seq IN ({})", value_list(n, 1)));
static PLACES: Sized = Sized::new(|n| {
    format!("SELECT seq, payload, place FROM observations WHERE seq IN ({})", value_list(n, 1))
});

/// Where the content of an observation is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredAt {
    /// The number of the row.
    pub(super) seq: i64,
    pub(super) payload: Option<i64>,
    pub(super) place: i64,
}

impl From<&OwnRow> for StoredAt {
    fn from(row: &OwnRow) -> Self {
        Self { seq: row.seq, payload: row.payload, place: row.place }
    }
}

/// Position of the content of the row at index `at`.
#[derive(Clone, Copy)]
struct ContentPosition {
    at: usize,
    payload: i64,
    place: i64,
}

/// How many of the rows have contents of at most `max_bytes` together, and the size of these contents. Each
/// block counts once.
fn within(rows: &[StoredAt], sizes: &HashMap<i64, usize>, max_bytes: usize) -> (usize, usize) {
    let mut seen = HashSet::new();
    let mut n_bytes = 0_usize;
    for (n, row) in rows.iter().enumerate() {
        let block = row.payload.filter(|block| seen.insert(*block));
        let size = block.and_then(|block| sizes.get(&block));
        let with_row = n_bytes.saturating_add(size.copied().unwrap_or(0));
        if max_bytes < with_row {
            return (n, n_bytes);
        }
        n_bytes = with_row;
    }
    (rows.len(), n_bytes)
}

impl Telemetry {
    /// One content per row, in order; `None` for a row that was deleted in the meantime. Blocks are read in
    /// parts: memory holds the returned contents and one part.
    pub(super) async fn contents(&self, rows: &[StoredAt]) -> Result<Vec<Option<Content>>, Error> {
        self.contents_up_to(rows, usize::MAX).await
    }

    /// The contents of the first rows: of as many as have at most `max_bytes` together, and of at least one.
    pub(super) async fn contents_up_to(
        &self,
        rows: &[StoredAt],
        max_bytes: usize,
    ) -> Result<Vec<Option<Content>>, Error> {
        if rows.len() < 2 {
            return self.contents_of(rows).await;
        }
        let blocks = rows.iter().filter_map(|row| row.payload).collect();
        let sizes = self.block_sizes(blocks).await?;
        let mut contents = Vec::with_capacity(rows.len());
        let mut n_left = max_bytes;
        while contents.len() < rows.len() {
            let rest = &rows[contents.len()..];
            let (mut n, mut n_bytes) = within(rest, &sizes, n_left.min(PART_BYTES));
            if n == 0 {
                (n, n_bytes) = within(&rest[..1], &sizes, usize::MAX);
                if !contents.is_empty() && n_left < n_bytes {
                    break;
                }
            }
            contents.extend(self.contents_of(&rest[..n]).await?);
            n_left = n_left.saturating_sub(n_bytes);
        }
        Ok(contents)
    }

    /// One content per row, in order; `None` for a row that was deleted in the meantime. A content that was
    /// replaced in the meantime is read from its new position and never taken for empty.
    async fn contents_of(&self, rows: &[StoredAt]) -> Result<Vec<Option<Content>>, Error> {
        let mut contents = vec![Some(Content::default()); rows.len()];
        let wanted = rows.iter().enumerate().filter_map(|(at, row)| {
            let (payload, place) = (row.payload?, row.place);
            Some(ContentPosition { at, payload, place })
        });
        let mut wanted: Vec<ContentPosition> = wanted.collect();
        for _ in 0..MAX_MOVES {
            let missing = self.unpack(&wanted, &mut contents).await?;
            if missing.is_empty() {
                return Ok(contents);
            }
            wanted = self.moved(rows, &missing, &mut contents).await?;
        }
        Err(Error::Unavailable("an observation changes faster than it can be read".to_owned()))
    }

    /// Whether each content, given by its block and its position in the block, may pass in its stored form. A
    /// missing content is empty. A content that moved during the lookup may pass.
    pub(super) async fn contents_with(
        &self,
        places: &[(Option<i64>, i64)],
        may_pass: impl Fn(usize, &str) -> bool + Sync,
    ) -> Result<Vec<bool>, Error> {
        let mut has = vec![false; places.len()];
        let mut by_block: HashMap<i64, Vec<(usize, i64)>> = HashMap::new();
        for (at, (payload, place)) in places.iter().enumerate() {
            match payload {
                Some(payload) => by_block.entry(*payload).or_default().push((at, *place)),
                None => has[at] = may_pass(at, ""),
            }
        }
        let mut blocks: Vec<i64> = by_block.keys().copied().collect();
        blocks.sort_unstable();
        let _scratch = Scratch::begin();
        let mut rest = blocks.as_slice();
        while !rest.is_empty() {
            let (sql, n) = BLOCKS.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            // Each block is dropped before the next one is unpacked.
            let put = &mut |row: Row| {
                let _scratch = Scratch::begin();
                let (seq, body) = <(i64, Vec<u8>)>::read(&row)?;
                charge(block::size(&body))?;
                let block = block::unpack(&body)?;
                let texts = block.texts()?;
                for (at, place) in by_block.remove(&seq).into_iter().flatten() {
                    let text = block::at_place(&texts, place)?;
                    has[at] = may_pass(at, text);
                }
                Ok(())
            };
            let query = some.iter().fold(query(sql), |query, seq| query.bind(*seq));
            query.each(&self.pool, put).await?;
            rest = later;
        }
        for (at, _) in by_block.into_values().flatten() {
            has[at] = true;
        }
        Ok(has)
    }

    async fn blocks(&self, sql: &'static str, seqs: &[i64]) -> Result<Vec<(i64, Vec<u8>)>, Error> {
        Ok({
            let mut query = query(sql);
            for seq in seqs {
                query = query.bind(*seq);
            }
            query.fetch_all(&self.pool).await?
        })
    }

    /// Unpacks each block once, even if several rows are in it. Returns the rows whose content was not found.
    async fn unpack(
        &self,
        wanted: &[ContentPosition],
        contents: &mut [Option<Content>],
    ) -> Result<Vec<ContentPosition>, Error> {
        let mut by_block: HashMap<i64, Vec<ContentPosition>> = HashMap::new();
        for each in wanted {
            by_block.entry(each.payload).or_default().push(*each);
        }
        let mut blocks: Vec<i64> = by_block.keys().copied().collect();
        blocks.sort_unstable();
        let mut rest = blocks.as_slice();
        while !rest.is_empty() {
            let (sql, n) = BLOCKS.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let mut scratch = Scratch::begin();
            for (seq, body) in self.blocks(sql, some).await? {
                let mut of_block = Scratch::begin();
                charge(block::size(&body))?;
                let block = block::unpack(&body)?;
                let texts = block.texts()?;
                for each in by_block.remove(&seq).into_iter().flatten() {
                    let text = block::at_place(&texts, each.place)?;
                    let content: Content = block::from_json(text)?;
                    let parsed = content.metadata.values().map(heap_bytes).sum::<usize>();
                    charge(parsed)?;
                    let n_bytes = text.len() + parsed;
                    of_block.keep(n_bytes);
                    scratch.keep(n_bytes);
                    contents[each.at] = Some(content);
                }
            }
            rest = later;
        }
        Ok(by_block.into_values().flatten().collect())
    }

    /// The new positions of contents whose blocks were deleted.
    async fn moved(
        &self,
        rows: &[StoredAt],
        missing: &[ContentPosition],
        contents: &mut [Option<Content>],
    ) -> Result<Vec<ContentPosition>, Error> {
        let mut by_seq: HashMap<i64, usize> = HashMap::new();
        for each in missing {
            by_seq.insert(rows[each.at].seq, each.at);
            contents[each.at] = None;
        }
        let seqs: Vec<i64> = by_seq.keys().copied().collect();
        let mut wanted = Vec::new();
        let mut rest = seqs.as_slice();
        while !rest.is_empty() {
            let (sql, n) = PLACES.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let places: Vec<(i64, Option<i64>, i64)> = {
                let mut query = query(sql);
                for seq in some {
                    query = query.bind(*seq);
                }
                query.fetch_all(&self.pool).await?
            };
            for (seq, payload, place) in places {
                let Some(&at) = by_seq.get(&seq) else {
                    continue;
                };
                match payload {
                    Some(payload) => wanted.push(ContentPosition { at, payload, place }),
                    // The current version has no content.
                    None => contents[at] = Some(Content::default()),
                }
            }
            rest = later;
        }
        Ok(wanted)
    }
}
