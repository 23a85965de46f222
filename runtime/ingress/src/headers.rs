//! What the headers of an OTLP request say (otlp.md 1.2 and 1.3).

use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use perpend_otlp::Encoding;

use super::decompress::Compression;
use crate::problem::{Code, Problem};

/// The newest ingestion version that clients announce.
const MAX_INGESTION_VERSION: u32 = 4;

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    Some(headers.get(name)?.to_str().unwrap_or("").trim())
}

/// The media type without parameters, lower-case.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = text(headers, CONTENT_TYPE)?;
    let media_type = value.split(';').next().unwrap_or("").trim();
    Some(media_type.to_ascii_lowercase())
}

pub(super) fn encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    let media_type = media_type(headers).unwrap_or_default();
    let message = match media_type.as_str() {
        "application/x-protobuf" | "application/protobuf" => return Ok(Encoding::Protobuf),
        "application/json" => return Ok(Encoding::Json),
        grpc if grpc.starts_with("application/grpc") => {
            "there is no gRPC endpoint: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf".to_owned()
        }
        "" => "a Content-Type is needed: application/x-protobuf or application/json".to_owned(),
        other => format!(
            "Content-Type {other:?} is not supported: send application/x-protobuf or application/json"
        ),
    };
    Err(Problem::new(Code::UnsupportedMediaType, message))
}

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
            "Content-Encoding {name:?} is not supported: send one of gzip, deflate, zstd, identity"
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
            let is_known = version
                .parse::<u32>()
                .is_ok_and(|v| v <= MAX_INGESTION_VERSION);
            if !is_known {
                let message = format!(
                    "x-perpend-ingestion-version {version:?} is not an integer up to {MAX_INGESTION_VERSION}"
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

/// `x-perpend-NAME`, else `x-langfuse-NAME`, with hyphens or underscores.
pub(crate) fn either(headers: &HeaderMap, name: &str) -> Option<String> {
    for vendor in ["perpend", "langfuse"] {
        let hyphens = format!("x-{vendor}-{name}");
        let value = headers
            .get(&hyphens)
            .or_else(|| headers.get(hyphens.replace('-', "_")));
        if let Some(value) = value {
            return Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned());
        }
    }
    None
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
    fn media_types_are_matched_without_case_and_parameters() {
        for (text, expected) in [
            ("application/x-protobuf", Encoding::Protobuf),
            ("Application/Protobuf", Encoding::Protobuf),
            ("application/json; charset=utf-8", Encoding::Json),
        ] {
            assert_eq!(
                encoding(&headers(&[("content-type", text)])).unwrap(),
                expected
            );
        }
        for text in ["text/plain", "application/grpc+proto"] {
            let problem = encoding(&headers(&[("content-type", text)])).unwrap_err();
            assert_eq!(problem.code(), Code::UnsupportedMediaType);
        }
        let grpc = encoding(&headers(&[("content-type", "application/grpc")])).unwrap_err();
        assert!(grpc.message().contains("http/protobuf"));
    }

    #[test]
    fn one_known_content_encoding_is_taken_and_a_list_is_refused() {
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
    fn headers_are_read_with_underscores_and_our_name_wins() {
        let both = headers(&[
            ("x_langfuse_sdk_name", "theirs"),
            ("x_perpend_sdk_name", "ours"),
            ("x_langfuse_ingestion_version", "4"),
        ]);
        assert_eq!(
            Sender::read(&both).unwrap().sdk_name.as_deref(),
            Some("ours")
        );
        for bad in ["5", "x", "-1", ""] {
            let one = headers(&[("x-langfuse-ingestion-version", bad)]);
            assert!(Sender::read(&one).is_err(), "{bad:?}");
        }
    }
}
