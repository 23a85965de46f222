//! The responses of the OTLP endpoints in the encoding of the request (otlp.md 1.4).

use std::fmt::Write as _;

use serde_json::json;

use crate::limits::cut_bytes;
use crate::{Encoding, MappingReport, Reason};

/// Longest message in bytes.
const MAX_MESSAGE: usize = 1_024;

/// `google.rpc.Code`: the request itself is wrong.
pub const INVALID_ARGUMENT: i32 = 3;
/// `google.rpc.Code`: the key may not do this.
pub const PERMISSION_DENIED: i32 = 7;
/// `google.rpc.Code`: too large, or too many.
pub const RESOURCE_EXHAUSTED: i32 = 8;
/// `google.rpc.Code`: try again later.
pub const UNAVAILABLE: i32 = 14;
/// `google.rpc.Code`: no or wrong credentials.
pub const UNAUTHENTICATED: i32 = 16;

/// The response to a trace request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportResponse {
    /// 200 with this `ExportTraceServiceResponse`, once the batch is durable.
    Accepted(Vec<u8>),
    /// 400: no span is left. The message for [`status`].
    AllRejected(String),
}

/// Builds the response to a trace request.
#[must_use]
pub fn export_response(report: &MappingReport, encoding: Encoding) -> ExportResponse {
    let n_rejected = report.n_rejected;
    if n_rejected > 0 && report.n_accepted == 0 {
        return ExportResponse::AllRejected(with_reasons(
            "No span of this request is usable; this endpoint takes OTLP traces.",
            &report.rejections,
        ));
    }
    let spans = |n: usize| match n {
        1 => "1 span was".to_owned(),
        n => format!("{n} spans were"),
    };
    let mut parts: Vec<String> = report.hint.map(str::to_owned).into_iter().collect();
    if n_rejected > 0 {
        let sentence = format!("{} rejected.", spans(n_rejected));
        parts.push(with_reasons(&sentence, &report.rejections));
    }
    if report.n_changed > 0 {
        let sentence = format!("{} stored with changes.", spans(report.n_changed));
        parts.push(with_reasons(&sentence, &report.changes));
    }
    if parts.is_empty() {
        return ExportResponse::Accepted(success(encoding));
    }
    ExportResponse::Accepted(partial_success(n_rejected, &parts.join(" "), encoding))
}

fn with_reasons(sentence: &str, reasons: &[Reason]) -> String {
    let mut message = sentence.to_owned();
    for (at, reason) in reasons.iter().enumerate() {
        let lead = if at == 0 { " Examples: " } else { "; " };
        // Writing to a string cannot fail.
        let _written = write!(message, "{lead}{} ({})", reason.text, reason.scope);
    }
    message
}

/// Everything accepted, for traces, logs and metrics alike: the empty message.
#[must_use]
pub fn success(encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => Vec::new(),
        Encoding::Json => b"{}".to_vec(),
    }
}

/// Accepted except for some spans, or with a hint when none was rejected.
#[must_use]
pub fn partial_success(n_rejected: usize, message: &str, encoding: Encoding) -> Vec<u8> {
    let message = cut_bytes(message, MAX_MESSAGE);
    match encoding {
        Encoding::Json => {
            let mut partial = serde_json::Map::new();
            if n_rejected > 0 {
                partial.insert("rejectedSpans".to_owned(), n_rejected.to_string().into());
            }
            partial.insert("errorMessage".to_owned(), message.into());
            json!({ "partialSuccess": partial }).to_string().into_bytes()
        }
        Encoding::Protobuf => {
            let mut partial = Vec::new();
            if n_rejected > 0 {
                put_varint(&mut partial, 1 << 3);
                put_varint(&mut partial, u64::try_from(n_rejected).unwrap_or(u64::MAX));
            }
            put_bytes(&mut partial, 2, message.as_bytes());
            let mut response = Vec::new();
            put_bytes(&mut response, 1, &partial);
            response
        }
    }
}

/// A `google.rpc.Status`, the body of every response other than 200.
#[must_use]
pub fn status(code: i32, message: &str, encoding: Encoding) -> Vec<u8> {
    let message = cut_bytes(message, MAX_MESSAGE);
    match encoding {
        Encoding::Json => json!({ "code": code, "message": message }).to_string().into_bytes(),
        Encoding::Protobuf => {
            let mut status = Vec::new();
            put_varint(&mut status, 1 << 3);
            put_varint(&mut status, u64::from(code.unsigned_abs()));
            put_bytes(&mut status, 2, message.as_bytes());
            status
        }
    }
}

fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(n_rejected: usize, n_accepted: usize) -> MappingReport {
        let mut report = MappingReport { n_accepted, ..MappingReport::default() };
        for _ in 0..n_rejected {
            report.reject("the trace id is missing", "app");
        }
        report
    }

    #[test]
    fn full_success_leaves_partial_success_unset() {
        for n_accepted in [0, 3] {
            let report = report(0, n_accepted);
            assert_eq!(
                export_response(&report, Encoding::Protobuf),
                ExportResponse::Accepted(Vec::new())
            );
            assert_eq!(
                export_response(&report, Encoding::Json),
                ExportResponse::Accepted(b"{}".to_vec())
            );
        }
    }

    #[test]
    fn rejected_spans_are_counted_in_both_encodings() {
        let ExportResponse::Accepted(json) = export_response(&report(2, 1), Encoding::Json) else {
            panic!("some spans are left");
        };
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"partialSuccess":{"rejectedSpans":"2","errorMessage":"2 spans were rejected. Examples: the trace id is missing (app)"}}"#
        );
        let ExportResponse::Accepted(bytes) = export_response(&report(2, 1), Encoding::Protobuf)
        else {
            panic!("some spans are left");
        };
        assert_eq!(bytes[..4], [0x0a, 66, 0x08, 2]);
    }

    #[test]
    fn a_request_without_a_usable_span_is_refused() {
        let ExportResponse::AllRejected(message) = export_response(&report(700, 0), Encoding::Json)
        else {
            panic!("no span is left");
        };
        assert!(message.contains("takes OTLP traces"));
        assert_eq!(status(INVALID_ARGUMENT, "no", Encoding::Protobuf), [8, 3, 18, 2, b'n', b'o']);
    }
}
