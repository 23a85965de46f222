//! Blocks of contents: several JSON texts, compressed together.

use std::cell::RefCell;

use serde::Serialize;
use serde::de::DeserializeOwned;

use perpend_db::Error;

/// A block is closed when its texts reach this size: reading one content unpacks the whole block.
pub const FULL_BYTES: usize = 48 << 10;
/// Fast and sufficient: blocks of one trace are very repetitive.
const LEVEL: i32 = 1;
/// Maximum size of an unpacked block, so that a corrupt one cannot demand arbitrary memory. One observation
/// may exceed [`FULL_BYTES`] on its own.
const MAX_BYTES: usize = 256 << 20;

fn wrong(detail: impl ToString) -> Error {
    Error::Inconsistent { what: "payload", detail: detail.to_string() }
}

pub fn to_json<T: Serialize>(content: &T) -> Result<String, Error> {
    serde_json::to_string(content).map_err(wrong)
}

pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(wrong)
}

/// Packs texts; [`unpack`] returns them by their position.
pub fn pack(texts: &[&str]) -> Result<Vec<u8>, Error> {
    thread_local! {
        // A context costs more to create than a block to compress.
        static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> =
            const { RefCell::new(None) };
    }
    let plain = postcard::to_allocvec(texts).map_err(wrong)?;
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = match slot {
            Some(compressor) => compressor,
            None => slot.insert(zstd::bulk::Compressor::new(LEVEL).map_err(wrong)?),
        };
        compressor.compress(&plain).map_err(wrong)
    })
}

/// Maximum size of the head of a packed block.
pub const HEAD_BYTES: usize = 18;

/// The unpacked size of a block, by its head; `usize::MAX` if the head is invalid.
pub fn size(head: &[u8]) -> usize {
    let size = zstd::zstd_safe::get_frame_content_size(head).ok().flatten();
    size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX)
}

/// An unpacked block.
#[derive(Debug)]
pub struct Block(Vec<u8>);

pub fn unpack(packed: &[u8]) -> Result<Block, Error> {
    let size = zstd::bulk::Decompressor::upper_bound(packed)
        .filter(|size| *size <= MAX_BYTES)
        .ok_or_else(|| wrong("its size is missing or too large"))?;
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { RefCell::new(None) };
    }
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(zstd::bulk::Decompressor::new().map_err(wrong)?),
        };
        decompressor.decompress(packed, size).map(Block).map_err(wrong)
    })
}

impl Block {
    /// The text at `place`.
    pub fn text(&self, place: i64) -> Result<&str, Error> {
        at_place(&self.texts()?, place)
    }

    /// All texts, for callers that need several of them.
    pub fn texts(&self) -> Result<Vec<&str>, Error> {
        postcard::from_bytes(&self.0).map_err(wrong)
    }
}

/// One of the texts of a block.
pub fn at_place<'t>(texts: &[&'t str], place: i64) -> Result<&'t str, Error> {
    usize::try_from(place)
        .ok()
        .and_then(|place| texts.get(place).copied())
        .ok_or_else(|| wrong("no text has this index"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_returns_each_text_and_refuses_other_indexes() {
        let block = unpack(&pack(&["{}", "", "{\"input\":1}"]).unwrap()).unwrap();
        assert_eq!(block.text(2).unwrap(), "{\"input\":1}");
        assert_eq!(block.text(1).unwrap(), "");
        assert!(block.text(3).is_err() && block.text(-1).is_err());
        assert!(unpack(b"not a block").is_err());
    }

    #[test]
    fn the_head_of_a_block_contains_its_unpacked_size() {
        for n in [0, 10, 300, 100_000, 3 << 20] {
            let packed = pack(&[&"a".repeat(n)]).unwrap();
            let head = &packed[..HEAD_BYTES.min(packed.len())];
            assert_eq!(size(head), unpack(&packed).unwrap().0.len());
        }
        assert_eq!(size(b"not a block"), usize::MAX);
    }
}
