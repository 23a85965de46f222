//! The form of a compiled component at rest: the engine's image, the description of the plug-in as JSON,
//! and a trailer with both lengths, a SHA-256 of all before it, and a mark.
//!
//! The sum finds damage. It keeps nobody out: who can write the file can write its sum, so the folder
//! and the open file are what has to be out of reach.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

/// Bytes after image and description.
pub const TRAILER: usize = LENGTHS + 32 + MAGIC.len();
const LENGTHS: usize = 16;
const MAGIC: [u8; 8] = *b"artifact";
const CHUNK: usize = 256 << 10;

/// Why a file is no whole artifact.
#[derive(Debug, thiserror::Error)]
pub enum Unsound {
    /// The bytes are not what was written.
    #[error("the artifact is damaged: {0}")]
    Damaged(&'static str),
    /// They cannot be read or passed on.
    #[error("reading an artifact: {0}")]
    Io(#[from] io::Error),
}

/// Where the parts of an artifact end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Bytes of the image, which stands first.
    pub image: u64,
    /// Bytes of the description, which stands behind it.
    pub description: usize,
}

/// Sums up an artifact while its image is written.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    sum: Sha256,
    n_image: u64,
}

impl Tail {
    /// The next bytes of the image.
    pub fn add(&mut self, image: &[u8]) {
        self.sum.update(image);
        self.n_image += image.len() as u64;
    }

    /// What follows the image: the description and the trailer.
    #[must_use]
    pub fn finish(mut self, description: &[u8]) -> Vec<u8> {
        let mut tail = description.to_vec();
        tail.extend(self.n_image.to_le_bytes());
        tail.extend((description.len() as u64).to_le_bytes());
        self.sum.update(&tail);
        tail.extend(self.sum.finalize());
        tail.extend(MAGIC);
        tail
    }
}

/// Reads an artifact of `length` bytes, passes every byte on, and checks the sum at the end: what was
/// passed on is sound only when this says so.
///
/// # Errors
/// When it is damaged, or cannot be read or passed on.
pub fn check(
    length: u64,
    mut from: impl Read,
    mut pass_on: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<Parts, Unsound> {
    let mut content =
        length.checked_sub(TRAILER as u64).ok_or(Unsound::Damaged("it is too short"))?;
    let mut sum = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    while 0 < content {
        let n = chunk.len().min(usize::try_from(content).unwrap_or(CHUNK));
        from.read_exact(&mut chunk[..n])?;
        sum.update(&chunk[..n]);
        pass_on(&chunk[..n])?;
        content -= n as u64;
    }
    let mut trailer = [0; TRAILER];
    from.read_exact(&mut trailer)?;
    pass_on(&trailer)?;
    let parts = parts(length, &trailer)?;
    sum.update(&trailer[..LENGTHS]);
    if sum.finalize()[..] != trailer[LENGTHS..LENGTHS + 32] {
        return Err(Unsound::Damaged("its sum does not match"));
    }
    Ok(parts)
}

/// Where the parts are, as the trailer of an artifact of `length` bytes says; the sum is not looked at.
///
/// # Errors
/// When it is no trailer, or not of this artifact.
pub fn parts(length: u64, trailer: &[u8; TRAILER]) -> Result<Parts, Unsound> {
    if trailer[LENGTHS + 32..] != MAGIC {
        return Err(Unsound::Damaged("its end is missing"));
    }
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&trailer[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let (image, description) = (word(0), word(8));
    let whole =
        image.checked_add(description).and_then(|content| content.checked_add(TRAILER as u64));
    match usize::try_from(description) {
        Ok(description) if whole == Some(length) => Ok(Parts { image, description }),
        _ => Err(Unsound::Damaged("its lengths do not match")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact() -> Vec<u8> {
        let mut tail = Tail::default();
        tail.add(b"native ");
        tail.add(b"code");
        [b"native code".as_slice(), &tail.finish(b"{}")].concat()
    }

    fn checked(bytes: &[u8]) -> Result<Parts, Unsound> {
        check(bytes.len() as u64, bytes, |_| Ok(()))
    }

    #[test]
    fn an_artifact_is_passed_on_as_it_was_written() {
        let bytes = artifact();
        let mut copy = Vec::new();
        let parts = check(bytes.len() as u64, bytes.as_slice(), |chunk| {
            copy.extend_from_slice(chunk);
            Ok(())
        });
        assert_eq!(parts.unwrap(), Parts { image: 11, description: 2 });
        assert_eq!(copy, bytes);
    }

    #[test]
    fn any_changed_or_missing_byte_is_found() {
        let whole = artifact();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(checked(&bytes).is_err(), "byte {at} changed");
            assert!(checked(&whole[..at]).is_err(), "{at} bytes are left");
        }
    }
}
