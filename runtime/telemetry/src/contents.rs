//! The contents of stored observations, out of their blocks.

use std::collections::HashMap;

use perpend_domain::observation::Content;

use super::block;
use super::row::OwnRow;
use crate::{Error, Telemetry};
use perpend_sql::{Sized, query, value_list};

/// How often a content that moved while it was looked for is followed. Each move is another version of
/// the same observation.
const MAX_MOVES: u32 = 8;

static BLOCKS: Sized = Sized::new(|n| {
    format!(
        "SELECT seq, body FROM payloads WHERE seq IN ({})",
        value_list(n, 1)
    )
});
static PLACES: Sized = Sized::new(|n| {
    format!(
        "SELECT seq, payload, place FROM observations WHERE seq IN ({})",
        value_list(n, 1)
    )
});

/// Where the content of the row at `at` stands.
#[derive(Clone, Copy)]
struct Wanted {
    at: usize,
    payload: i64,
    place: i64,
}

impl Telemetry {
    /// One content per row, in order; `None` for a row that has been deleted since it was read. A content
    /// that was replaced since is read where it stands now: never is it taken for empty.
    pub(super) async fn contents(&self, rows: &[&OwnRow]) -> Result<Vec<Option<Content>>, Error> {
        let mut contents = vec![Some(Content::default()); rows.len()];
        let wanted = rows.iter().enumerate().filter_map(|(at, row)| {
            let (payload, place) = (row.payload?, row.place);
            Some(Wanted { at, payload, place })
        });
        let mut wanted: Vec<Wanted> = wanted.collect();
        for _ in 0..MAX_MOVES {
            let missing = self.unpack(&wanted, &mut contents).await?;
            if missing.is_empty() {
                return Ok(contents);
            }
            wanted = self.moved(rows, &missing, &mut contents).await?;
        }
        Err(Error::Unavailable(
            "an observation changes faster than it can be read".to_owned(),
        ))
    }

    /// Whether each content, given by its block and its place in it, may pass in the form it is stored in; one
    /// that is not there is empty. One that moved while it was looked for may pass.
    pub(super) async fn contents_with(
        &self,
        places: &[(Option<i64>, i64)],
        may_pass: impl Fn(usize, &str) -> bool,
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
        let mut rest = blocks.as_slice();
        while !rest.is_empty() {
            let (sql, n) = BLOCKS.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            for (seq, body) in self.blocks(sql, some).await? {
                let block = block::unpack(&body)?;
                let texts = block.texts()?;
                for (at, place) in by_block.remove(&seq).into_iter().flatten() {
                    let text = block::at_place(&texts, place)?;
                    has[at] = may_pass(at, text);
                }
            }
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

    /// Unpacks each block once, however many of the rows stand in it; gives what was not found.
    async fn unpack(
        &self,
        wanted: &[Wanted],
        contents: &mut [Option<Content>],
    ) -> Result<Vec<Wanted>, Error> {
        let mut by_block: HashMap<i64, Vec<Wanted>> = HashMap::new();
        for each in wanted {
            by_block.entry(each.payload).or_default().push(*each);
        }
        let mut blocks: Vec<i64> = by_block.keys().copied().collect();
        blocks.sort_unstable();
        let mut rest = blocks.as_slice();
        while !rest.is_empty() {
            let (sql, n) = BLOCKS.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            for (seq, body) in self.blocks(sql, some).await? {
                let block = block::unpack(&body)?;
                let texts = block.texts()?;
                for each in by_block.remove(&seq).into_iter().flatten() {
                    let text = block::at_place(&texts, each.place)?;
                    contents[each.at] = Some(block::from_json(text)?);
                }
            }
            rest = later;
        }
        Ok(by_block.into_values().flatten().collect())
    }

    /// Where the contents went whose blocks are gone.
    async fn moved(
        &self,
        rows: &[&OwnRow],
        missing: &[Wanted],
        contents: &mut [Option<Content>],
    ) -> Result<Vec<Wanted>, Error> {
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
                    Some(payload) => wanted.push(Wanted { at, payload, place }),
                    // The version that stands now has none.
                    None => contents[at] = Some(Content::default()),
                }
            }
            rest = later;
        }
        Ok(wanted)
    }
}
