//! Decompression with a size limit: a decompression bomb takes no more memory than any other body.

use std::io::{self, BufRead, Read};

use perpend_http_kit::admission::{ChargedBody, too_large};
use perpend_http_kit::problem::{Code, Problem};

/// Content encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Deflate,
    Zstd,
}

/// Largest window a zstd frame may ask for, as a power of two: the 8 MiB that RFC 8878 recommends.
const MAX_ZSTD_WINDOW_LOG: u32 = 23;

const STEP: usize = 64 << 10;

/// Decompresses a whole body. Both forms are charged until this returns, then only the decoded one.
pub(super) fn decompress(
    wire: ChargedBody,
    compression: Compression,
    max_bytes: usize,
) -> Result<ChargedBody, Problem> {
    let ChargedBody { bytes: data, account } = wire;
    let mut sink = Sink { decoded: ChargedBody { bytes: Vec::new(), account }, max_bytes };
    match compression {
        Compression::None => {
            sink.decoded.bytes = data;
            return Ok(sink.decoded);
        }
        Compression::Gzip => {
            sink.pump("gzip", flate2::bufread::MultiGzDecoder::new(data.as_slice()))?;
        }
        Compression::Deflate => {
            let is_zlib = has_zlib_header(&data);
            let wrapped = if is_zlib {
                sink.pump("deflate", flate2::bufread::ZlibDecoder::new(data.as_slice()))
            } else {
                Err(undecodable("deflate"))
            };
            // Some senders omit the zlib header. Only a body without one is retried: a body over
            // the limit is not.
            match wrapped {
                Err(problem) if problem.code() == Code::InvalidBody => {
                    sink.clear();
                    sink.pump("deflate", flate2::bufread::DeflateDecoder::new(data.as_slice()))?;
                }
                other => other?,
            }
        }
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(data.as_slice());
            let mut decoder = decoder.map_err(|_| undecodable("zstd"))?;
            let bounded = decoder.window_log_max(MAX_ZSTD_WINDOW_LOG);
            bounded.map_err(|_| undecodable("zstd"))?;
            sink.pump("zstd", decoder)?;
        }
    }
    let n_wire = data.len();
    drop(data);
    sink.decoded.account.release(n_wire);
    Ok(sink.decoded)
}

fn undecodable(name: &str) -> Problem {
    Problem::new(Code::InvalidBody, format!("the body must be valid {name}"))
}

fn has_zlib_header(data: &[u8]) -> bool {
    let mut start = data;
    let mut head = [0; 2];
    let is_long = start.fill_buf().is_ok_and(|bytes| bytes.len() >= 2);
    is_long
        && start.read_exact(&mut head).is_ok()
        && head[0] & 0x0f == 8
        && u16::from_be_bytes(head) % 31 == 0
}

struct Sink {
    decoded: ChargedBody,
    max_bytes: usize,
}

impl Sink {
    fn clear(&mut self) {
        self.decoded.account.release(self.decoded.bytes.len());
        self.decoded.bytes = Vec::new();
    }

    fn pump(&mut self, name: &str, mut decoder: impl Read) -> Result<(), Problem> {
        let mut step = vec![0; STEP];
        loop {
            let n = match decoder.read(&mut step) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(undecodable(name)),
            };
            if self.decoded.bytes.len() + n > self.max_bytes {
                return Err(too_large(self.max_bytes));
            }
            self.decoded.account.take(n)?;
            self.decoded.bytes.extend_from_slice(&step[..n]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression as Level;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;
    use perpend_http_kit::admission::Admission;

    fn run(data: Vec<u8>, compression: Compression, max: usize) -> Result<Vec<u8>, Problem> {
        let account = Admission::new(1 << 30, 100).account();
        let wire = ChargedBody { bytes: data, account };
        decompress(wire, compression, max).map(|decoded| decoded.bytes)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Level::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn several_gzip_members_are_one_body() {
        let data = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(run(data, Compression::Gzip, 100).unwrap(), b"one two");
    }

    #[test]
    fn deflate_is_read_with_and_without_wrapper() {
        let mut wrapped = ZlibEncoder::new(Vec::new(), Level::default());
        wrapped.write_all(b"text").unwrap();
        let mut raw = DeflateEncoder::new(Vec::new(), Level::default());
        raw.write_all(b"text").unwrap();
        for data in [wrapped.finish().unwrap(), raw.finish().unwrap()] {
            assert_eq!(run(data, Compression::Deflate, 100).unwrap(), b"text");
        }
    }

    #[test]
    fn zstd_frames_are_read_and_huge_windows_refused() {
        let data = zstd::encode_all(&b"text"[..], 3).unwrap();
        assert_eq!(run(data, Compression::Zstd, 100).unwrap(), b"text");

        let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&[0; 1 << 20]).unwrap();
        let wide = encoder.finish().unwrap();
        let problem = run(wide, Compression::Zstd, 1 << 30).unwrap_err();
        assert_eq!(problem.code(), Code::InvalidBody);
    }

    #[test]
    fn a_bomb_stops_at_the_limit_in_each_encoding() {
        let zeros = vec![0; 8 << 20];
        let mut wrapped = ZlibEncoder::new(Vec::new(), Level::best());
        wrapped.write_all(&zeros).unwrap();
        for (data, compression) in [
            (gzip(&zeros), Compression::Gzip),
            (wrapped.finish().unwrap(), Compression::Deflate),
            (zstd::encode_all(&zeros[..], 3).unwrap(), Compression::Zstd),
        ] {
            let problem = run(data, compression, 1 << 20).unwrap_err();
            assert_eq!(problem.code(), Code::TooLarge, "{compression:?}");
        }
    }

    #[test]
    fn decoded_bytes_count_against_the_common_budget() {
        let admission = Admission::new(8 << 20, 100);
        let (account, other) = (admission.account(), admission.account());
        other.take(4 << 20).unwrap();
        let data = gzip(&vec![0; 4 << 20]);
        let wire = ChargedBody { bytes: data, account };
        let outcome = decompress(wire, Compression::Gzip, 64 << 20);
        assert_eq!(outcome.err().map(|p| p.code()), Some(Code::Unavailable));
    }

    #[test]
    fn garbage_is_refused_in_each_encoding() {
        for compression in [Compression::Gzip, Compression::Deflate, Compression::Zstd] {
            let data = b"\xff\xff no such thing".to_vec();
            let problem = run(data, compression, 100).unwrap_err();
            assert_eq!(problem.code(), Code::InvalidBody, "{compression:?}");
        }
    }
}
