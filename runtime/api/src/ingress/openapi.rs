//! OpenAPI description of the OTLP paths.

use perpend_domain::access::Permission::IngestWrite;
use perpend_http_kit::auth::Requirement;
use perpend_http_kit::otlp::{PATHS, Signal};
use perpend_http_kit::routes::with_permission;
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{HttpMethod, PathItem, Required, Response, ResponseBuilder};

/// Media types of protobuf.
const PROTOBUF: [&str; 2] = ["application/x-protobuf", "application/protobuf"];
const JSON: &str = "application/json";

const REFUSALS: [(u16, &str); 8] = [
    (
        400,
        "The body is not an OTLP request of this path, all of its spans are invalid, or a header is invalid. Nothing was stored.",
    ),
    (401, "No valid credentials."),
    (403, "The credentials lack the permission to send telemetry."),
    (413, "The body is larger than `ingest.max_body_mib`, compressed or decompressed."),
    (415, "The media type or the content encoding is not supported. Always JSON."),
    (429, "Too many requests; `Retry-After` has the time until the next one is accepted."),
    (500, "Internal server error."),
    (
        503,
        "The server cannot process the request now; send it again after `Retry-After`. Nothing was stored.",
    ),
];

const fn summary(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "Send spans as OTLP; they are stored before the response",
        Signal::Logs => "Send log records as OTLP; those of the GenAI conventions are stored",
        Signal::Metrics => "Send metrics as OTLP; they are validated and not stored",
    }
}

/// The top-level member of a request.
const fn member(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "resourceSpans",
        Signal::Logs => "resourceLogs",
        Signal::Metrics => "resourceMetrics",
    }
}

/// Every path with its description.
pub fn paths() -> impl Iterator<Item = (&'static str, PathItem)> {
    PATHS.iter().map(|(path, signal)| (*path, item(path, *signal)))
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// JSON with this schema, and protobuf.
fn contents(json: ObjectBuilder) -> Vec<(&'static str, Content)> {
    let json = ContentBuilder::new().schema(Some(json)).build();
    let mut contents = vec![(JSON, json)];
    for media_type in PROTOBUF {
        let binary = text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));
        contents.push((media_type, ContentBuilder::new().schema(Some(binary)).build()));
    }
    contents
}

fn answer(text: &str, json: ObjectBuilder) -> Response {
    let answer = ResponseBuilder::new().description(text);
    let contents = contents(json).into_iter();
    let answer =
        contents.fold(answer, |answer, (media_type, content)| answer.content(media_type, content));
    answer.build()
}

/// `ExportTraceServiceResponse` and the like: without members when everything was accepted.
fn success_body() -> ObjectBuilder {
    let partial = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("rejectedSpans", text())
        .property("errorMessage", text());
    let answer = ObjectBuilder::new().schema_type(Type::Object);
    answer.property("partialSuccess", partial)
}

/// `google.rpc.Status`.
fn status() -> ObjectBuilder {
    let code = ObjectBuilder::new().schema_type(Type::Integer);
    let status = ObjectBuilder::new().schema_type(Type::Object);
    let status = status.property("code", code).property("message", text());
    status.required("code").required("message")
}

/// The operation id. The paths of each signal differ in a suffix.
fn id(path: &str, signal: Signal) -> String {
    let suffix = match path {
        "/api/public/otel" => "AtEndpoint",
        _ if path.starts_with("/api/public/otel/") => "",
        _ => "AtRoot",
    };
    let name = match signal {
        Signal::Traces => "Traces",
        Signal::Logs => "Logs",
        Signal::Metrics => "Metrics",
    };
    format!("export{name}{suffix}")
}

fn item(path: &str, signal: Signal) -> PathItem {
    let resources = ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::Object));
    let request = ObjectBuilder::new().schema_type(Type::Object);
    let request = request.property(member(signal), resources);
    let body = RequestBodyBuilder::new().required(Some(Required::True));
    let contents = contents(request).into_iter();
    let body = contents.fold(body, |body, (media_type, content)| body.content(media_type, content));
    let encodings = text().enum_values(Some(["gzip", "deflate", "zstd", "identity"]));
    let encoding = ParameterBuilder::new()
        .name("Content-Encoding")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("Compression of the body; none when absent."))
        .schema(Some(encodings));
    let mut operation = OperationBuilder::new()
        .operation_id(Some(id(path, signal)))
        .summary(Some(summary(signal)))
        .tag("otel")
        .parameter(encoding)
        .request_body(Some(body.build()))
        .response("200", answer(summary(signal), success_body()));
    for (number, text) in REFUSALS {
        operation = operation.response(number.to_string(), answer(text, status()));
    }
    let operation = with_permission(operation, Requirement::One(IngestWrite));
    PathItem::new(HttpMethod::Post, operation.build())
}
