//! The headers of an OTLP request: compression and sender (otlp.md 1.2 and 1.3).

use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use perpend_http_kit::otlp::either;
use perpend_http_kit::problem::{Code, Problem};

use super::decompress::Compression;

/// The newest ingestion version that clients announce.
const MAX_INGESTION_VERSION: u32 = 4;

pub(super) fn compression(headers: &HeaderMap) -> Result<Compression, Problem> {
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let Some(first) = values.next() else {
        return Ok(Compression::None);
    };
    let name = first.to_str().unwrap_or("?").trim().to_ascii_lowercase();
    match name.as_str() {
        _ if values.next().is_some() => {}
        "" | "identity" => return Ok(Compression::None),
        "gzip" | "x-gzip" => return Ok(Compression::Gzip),
        "deflate" => return Ok(Compression::Deflate),
        "zstd" => return Ok(Compression::Zstd),
        _ => {}
    }
    Err(Problem::new(
        Code::UnsupportedMediaType,
        format!(
            "Content-Encoding must be one of `gzip`, `deflate`, `zstd`, `identity`; got `{name}`"
        ),
    ))
}

/// Attribution of a request.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) sdk_name: Option<String>,
    pub(super) sdk_version: Option<String>,
}

impl Sender {
    pub(super) fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        if let Some(version) = either(headers, "ingestion-version") {
            let is_known = version.parse::<u32>().is_ok_and(|v| v <= MAX_INGESTION_VERSION);
            if !is_known {
                let message = format!(
                    "x-perpend-ingestion-version must be an integer from 0 to {MAX_INGESTION_VERSION}, got {version:?}"
                );
                return Err(Problem::new(Code::InvalidRequest, message));
            }
        }
        Ok(Self {
            sdk_name: either(headers, "sdk-name"),
            sdk_version: either(headers, "sdk-version"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn one_known_content_encoding_is_accepted_and_a_list_is_refused() {
        assert_eq!(compression(&headers(&[])).unwrap(), Compression::None);
        let gzip = headers(&[("content-encoding", "X-GZIP")]);
        assert_eq!(compression(&gzip).unwrap(), Compression::Gzip);
        for list in [
            headers(&[("content-encoding", "gzip, zstd")]),
            headers(&[("content-encoding", "gzip"), ("content-encoding", "gzip")]),
            headers(&[("content-encoding", "br")]),
        ] {
            assert!(compression(&list).is_err());
        }
    }

    #[test]
    fn headers_are_read_with_underscores_and_our_prefix_takes_precedence() {
        let both = headers(&[
            ("x_langfuse_sdk_name", "theirs"),
            ("x_perpend_sdk_name", "ours"),
            ("x_langfuse_ingestion_version", "4"),
        ]);
        assert_eq!(Sender::read(&both).unwrap().sdk_name.as_deref(), Some("ours"));
        for bad in ["5", "x", "-1", ""] {
            let one = headers(&[("x-langfuse-ingestion-version", bad)]);
            assert!(Sender::read(&one).is_err(), "{bad:?}");
        }
    }
}
