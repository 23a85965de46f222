//! The file format of a compiled component: the engine's image, the description of the plug-in as JSON, and a
//! trailer with both lengths, a SHA-256 checksum of everything before it, and a magic number.
//!
//! The checksum detects damage, not tampering: a process that can write the file can also write the checksum.
//! The folder and the open file must therefore be protected by permissions and seals.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

/// Bytes of the trailer.
pub const TRAILER: usize = LENGTHS + 32 + MAGIC.len();
const LENGTHS: usize = 16;
const MAGIC: [u8; 8] = *b"artifact";
const CHUNK: usize = 256 << 10;

/// A file is not a complete artifact.
#[derive(Debug, thiserror::Error)]
pub enum IntegrityError {
    /// The content differs from what was written.
    #[error("the artifact is damaged: {0}")]
    Damaged(&'static str),
    /// Reading or copying failed.
    #[error("cannot read the artifact: {0}")]
    Io(#[from] io::Error),
}

/// The lengths of the parts of an artifact, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The image, at the start of the file.
    pub image: u64,
    /// The description, after the image.
    pub description: usize,
}

/// Computes the checksum while the image is written, and builds the part after the image.
#[derive(Clone, Debug, Default)]
pub struct TailBuilder {
    sum: Sha256,
    n_image: u64,
}

impl TailBuilder {
    /// Adds the next bytes of the image.
    pub fn add(&mut self, image: &[u8]) {
        self.sum.update(image);
        self.n_image += image.len() as u64;
    }

    /// Returns the bytes that follow the image: the description and the trailer.
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

/// Reads an artifact of `length` bytes, passes all bytes to `copy`, and verifies the checksum at the end. The copied
/// bytes are valid only when this function succeeds.
///
/// # Errors
/// When the artifact is damaged, or reading or copying fails.
pub fn check(
    length: u64,
    mut from: impl Read,
    mut copy: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<Layout, IntegrityError> {
    let mut content = length
        .checked_sub(TRAILER as u64)
        .ok_or(IntegrityError::Damaged("the file is too short"))?;
    let mut sum = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    while 0 < content {
        let n = chunk.len().min(usize::try_from(content).unwrap_or(CHUNK));
        from.read_exact(&mut chunk[..n])?;
        sum.update(&chunk[..n]);
        copy(&chunk[..n])?;
        content -= n as u64;
    }
    let mut trailer = [0; TRAILER];
    from.read_exact(&mut trailer)?;
    copy(&trailer)?;
    let layout = layout(length, &trailer)?;
    sum.update(&trailer[..LENGTHS]);
    if sum.finalize()[..] != trailer[LENGTHS..LENGTHS + 32] {
        return Err(IntegrityError::Damaged("the checksum does not match"));
    }
    Ok(layout)
}

/// Reads the layout of an artifact of `length` bytes from its trailer. Does not verify the checksum.
///
/// # Errors
/// When the trailer is invalid or does not match `length`.
pub fn layout(length: u64, trailer: &[u8; TRAILER]) -> Result<Layout, IntegrityError> {
    if trailer[LENGTHS + 32..] != MAGIC {
        return Err(IntegrityError::Damaged("the end is missing"));
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
        Ok(description) if whole == Some(length) => Ok(Layout { image, description }),
        _ => Err(IntegrityError::Damaged("the lengths do not match")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact() -> Vec<u8> {
        let mut tail = TailBuilder::default();
        tail.add(b"native ");
        tail.add(b"code");
        [b"native code".as_slice(), &tail.finish(b"{}")].concat()
    }

    fn checked(bytes: &[u8]) -> Result<Layout, IntegrityError> {
        check(bytes.len() as u64, bytes, |_| Ok(()))
    }

    #[test]
    fn an_artifact_is_copied_unchanged() {
        let bytes = artifact();
        let mut copy = Vec::new();
        let layout = check(bytes.len() as u64, bytes.as_slice(), |chunk| {
            copy.extend_from_slice(chunk);
            Ok(())
        });
        assert_eq!(layout.unwrap(), Layout { image: 11, description: 2 });
        assert_eq!(copy, bytes);
    }

    #[test]
    fn any_changed_or_missing_byte_is_detected() {
        let whole = artifact();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert!(checked(&bytes).is_err(), "byte {at} changed");
            assert!(checked(&whole[..at]).is_err(), "{at} bytes are left");
        }
    }
}
