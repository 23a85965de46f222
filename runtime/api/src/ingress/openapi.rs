//! What the OpenAPI document says of the OTLP paths.

use perpend_domain::access::Permission::IngestWrite;
use perpend_http_kit::auth::Requirement;
use perpend_http_kit::otlp::{PATHS, Signal};
use perpend_http_kit::routes::with_permission;
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::path::{OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{HttpMethod, PathItem, Required, Response, ResponseBuilder};

/// Both spellings of protobuf are in use.
const PROTOBUF: [&str; 2] = ["application/x-protobuf", "application/protobuf"];
const JSON: &str = "application/json";

const REFUSALS: [(u16, &str); 8] = [
    (
        400,
        "The body is not what OTLP sends here, none of its spans is usable, or a header is wrong. Nothing was stored.",
    ),
    (401, "No valid credentials."),
    (403, "The credentials may not send telemetry."),
    (413, "The body is larger than `ingest.max_body_mib`, as it was sent or decompressed."),
    (415, "The media type or the content encoding is not supported. Always JSON."),
    (429, "More requests than the key may make; `Retry-After` says when the next one fits."),
    (500, "A fault of the server."),
    (
        503,
        "The server cannot take the request now; send it again after `Retry-After`. Nothing was stored.",
    ),
];

const fn summary(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "Send spans as OTLP; 200 means that they are stored",
        Signal::Logs => "Send log records as OTLP; those of GenAI conventions are stored",
        Signal::Metrics => "Send metrics as OTLP; they are checked and not stored",
    }
}

/// The member of a request that holds everything.
const fn member(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "resourceSpans",
        Signal::Logs => "resourceLogs",
        Signal::Metrics => "resourceMetrics",
    }
}

/// Every path, with what it takes and answers.
pub fn paths() -> impl Iterator<Item = (&'static str, PathItem)> {
    PATHS.iter().map(|(path, signal)| (*path, item(path, *signal)))
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// JSON of this form, and protobuf.
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

/// `ExportTraceServiceResponse` and its like: without members when all was taken.
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

/// Each signal has its id at the path that exporters make from the endpoint, and more words at the others.
fn id(path: &str, signal: Signal) -> String {
    let place = match path {
        "/api/public/otel" => "AtEndpoint",
        _ if path.starts_with("/api/public/otel/") => "",
        _ => "AtRoot",
    };
    let what = match signal {
        Signal::Traces => "Traces",
        Signal::Logs => "Logs",
        Signal::Metrics => "Metrics",
    };
    format!("export{what}{place}")
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
        .description(Some("How the body is compressed; not at all when absent."))
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
