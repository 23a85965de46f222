//! Invalid input to every operation of the OpenAPI document, on each database: wrong types, numbers out of range,
//! unknown members, bodies that are too large, too deep or not JSON, characters that databases cannot store, and names
//! that look like paths.
//!
//! Each refusal is JSON with a code and names the field; none is a fault of the server; and after all of
//! them the server shows what it showed before.

mod document;
#[cfg(target_os = "linux")]
mod memory;
mod seeds;

use std::collections::BTreeMap;

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_http_kit::problem::Code;
use perpend_it::TestApp;
use perpend_server::client::{Answer, Client};
use perpend_storage::testing::TempDatabase;
use serde_json::{Map, Value, json};

use document::{Known, Operation, Param, encoded, operations, types};

/// The limit of bodies, small so that the test need not send much.
const MAX_BODY_KIB: usize = 256;
/// Larger than any limit for JSON.
const TOO_LARGE: usize = 4_800_000;
/// The endpoint for scores takes a list of them too.
const TAKES_LISTS: &str = "/api/public/scores";

/// The endpoint for files of items takes any bytes, and keeps them until their import.
const TAKES_FILES: &str = "/api/v1/datasets/{datasetName}/import";

/// The media type of all bodies but one.
const JSON: &str = "application/json";

/// The invalid field, and the expected response.
type Wanted<'a> = (&'a str, Expected);

/// The expected response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Refused, with the field named.
    Refused,
    /// Refused as larger than the limit.
    TooLarge,
    /// No server error; a refusal of the content names the field.
    NoFault,
}

/// A server, its operations, and the faults found so far.
struct Tried {
    app: TestApp,
    organizer: Client,
    operations: Vec<Operation>,
    known: Known,
    wrong: Vec<String>,
    n_sent: usize,
}

impl Tried {
    async fn on(database: Option<&TempDatabase>) -> anyhow::Result<Self> {
        let limit = MAX_BODY_KIB.to_string();
        let mut settings = vec![("api.max_body_kib", limit.as_str())];
        if let Some(DatabaseUrl::Postgres(url)) = database.map(TempDatabase::url) {
            settings.push(("database.url", url));
        }
        let app = TestApp::with(&settings).await?;
        let known = seeds::seeds(&app).await?;
        let mut operations = operations(&app.client).await?;
        operations.retain(|operation| operation.path != TAKES_FILES);
        Ok(Self {
            operations,
            organizer: Client::new(&app.origin).with_keys("pk-test-org", "sk-test-org"),
            app,
            known,
            wrong: Vec::new(),
            n_sent: 0,
        })
    }

    fn client(&self, of: &Operation) -> &Client {
        match of.is_of_organization {
            true => &self.organizer,
            false => &self.app.client,
        }
    }

    /// Sends a JSON body and judges the answer.
    async fn send(&mut self, to: &Operation, body: Vec<u8>, field: &str, expected: Expected) {
        let address = to.address(&self.known, None);
        let wanted = (field, expected);
        self.send_as(to, &address, JSON, body, wanted).await;
    }

    async fn send_as(
        &mut self,
        to: &Operation,
        address: &str,
        media_type: &str,
        body: Vec<u8>,
        (field, expected): Wanted<'_>,
    ) {
        let start = String::from_utf8_lossy(&body[..body.len().min(160)]).into_owned();
        let headers = [("content-type", media_type)];
        let method = to.method.clone();
        let client = self.client(to);
        let sent = client.send(method, address, &headers, body).await;
        self.n_sent += 1;
        let fault = match &sent {
            Ok(answer) => fault(to, answer, field, expected, to.is_reached(&self.known)),
            Err(error) => Some(format!("no answer: {error:#}")),
        };
        if let Some(fault) = fault {
            let shown: String = address.chars().take(160).collect();
            let text = sent.map_or(String::new(), |answer| answer.text());
            let text: String = text.chars().take(400).collect();
            self.wrong
                .push(format!("{} {shown} {start:?} [{field}]\n  {fault}: {text}", to.method));
        }
    }

    /// The responses of all lists and known resources.
    async fn shown(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut shown = BTreeMap::new();
        for operation in &self.operations {
            // Background jobs run without a request, and some reads are recorded in the audit trail.
            let changes_alone = operation.is_open
                || operation.path == "/api/v1/jobs"
                || operation.path.contains("/audit");
            if !operation.is_read() || changes_alone || !operation.is_reached(&self.known) {
                continue;
            }
            let address = operation.address(&self.known, None);
            let answer = self.client(operation).get(&address).await?;
            anyhow::ensure!(answer.status.as_u16() < 500, "{address}: {}", answer.text());
            shown.insert(address, format!("{} {}", answer.status, unsigned(&answer.text())));
        }
        Ok(shown)
    }

    /// Records differences to the earlier responses.
    async fn is_still(&mut self, before: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let after = self.shown().await?;
        for (address, is) in &after {
            let was = before.get(address).map_or("", String::as_str);
            if was != is {
                let fault =
                    format!("GET {address}\n  is not as before: {was:.600}\n  now: {is:.600}");
                self.wrong.push(fault);
            }
        }
        Ok(())
    }

    /// The verdict.
    async fn end(self) -> anyhow::Result<()> {
        let Self { app, wrong, n_sent, .. } = self;
        anyhow::ensure!(
            wrong.is_empty(),
            "{} of {n_sent} answers:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        app.stop().await
    }
}

/// Without the signatures of addresses, which are new each time, and the time a key was last used.
fn unsigned(text: &str) -> String {
    let marks = ["&until=", "\"urlExpiry\":\"", "\"lastUsedAt\":\""];
    let text = text.replace("\"lastUsedAt\":null", "\"lastUsedAt\":\"\"");
    marks.into_iter().fold(text, |text, mark| {
        let mut parts = text.split(mark);
        let first = parts.next().unwrap_or_default().to_owned();
        let rest = parts.map(|part| part.find('"').map_or("", |end| &part[end..]));
        rest.fold(first, |text, part| text + part)
    })
}

/// The fault of a response.
fn fault(
    to: &Operation,
    answer: &Answer,
    field: &str,
    expected: Expected,
    is_reached: bool,
) -> Option<String> {
    let status = answer.status.as_u16();
    let body = answer.json();
    if 500 <= status {
        return Some(format!("{status}, a fault of the server"));
    }
    // Of a batch each member is answered on its own.
    let parts = body["errors"].as_array().filter(|parts| status == 207 && !parts.is_empty());
    if let Some(parts) = parts {
        let is_named = parts.iter().all(|part| part["message"].is_string());
        return (!is_named).then(|| "a part is refused without a word".to_owned());
    }
    if answer.status.is_success() {
        if !to.success.contains(&status) {
            return Some(format!("{status}, the document says {:?}", to.success));
        }
        return (expected != Expected::NoFault).then(|| format!("accepted with {status}"));
    }
    let media_type = answer.headers.get("content-type");
    let media_type = media_type.and_then(|value| value.to_str().ok());
    let (message, details, is_known) = match media_type {
        // The clients of SCIM know no codes.
        Some("application/json" | "application/scim+json") if body["schemas"].is_array() => {
            let is_known = body["status"].as_str() == Some(status.to_string().as_str());
            (&body["detail"], &body, is_known)
        }
        Some("application/json") => (&body["message"], &body["details"], is_code(&body, status)),
        Some("application/problem+json") => (&body["detail"], &body, is_code(&body, status)),
        other => return Some(format!("{status} as {other:?}")),
    };
    let message = message.as_str().unwrap_or_default();
    if message.is_empty() || !is_known {
        return Some(format!("{status} without a message, or with a code of another status"));
    }
    match status {
        413 => None,
        _ if expected == Expected::TooLarge => Some(format!("{status} where 413 is due")),
        400 | 422 => (!names(message, details, field)).then(|| "the field is not named".to_owned()),
        415 => None,
        404 | 409 if expected == Expected::NoFault || !is_reached => None,
        _ => Some(format!("{status} where the input is at fault")),
    }
}

/// Whether the code of a body is one of the server's, and of this status.
fn is_code(body: &Value, status: u16) -> bool {
    let code = body["details"]["reason"].as_str().or(body["code"].as_str());
    let mut all = Code::ALL.iter();
    all.any(|known| Some(known.as_str()) == code && known.status() == status)
}

fn names(message: &str, details: &Value, field: &str) -> bool {
    let issues = details["issues"].as_array().into_iter().flatten();
    let mut paths = issues.map(|issue| issue["path"].to_string());
    field.is_empty() || message.contains(field) || paths.any(|path| path.contains(field))
}

/// Runs a story on each database.
async fn on_each_database<F>(story: F) -> anyhow::Result<()>
where
    F: AsyncFn(&mut Tried) -> anyhow::Result<()>,
{
    for database in TempDatabase::each().await {
        let is_sqlite = matches!(database.url(), DatabaseUrl::Sqlite(_));
        let mut tried = Tried::on((!is_sqlite).then_some(&database)).await?;
        story(&mut tried).await?;
        anyhow::ensure!(400 < tried.n_sent, "{} requests are not all of them", tried.n_sent);
        tried.end().await?;
    }
    Ok(())
}

/// Whether an operation takes a body, described or not.
fn takes_body(operation: &Operation) -> bool {
    let may = [Method::POST, Method::PUT, Method::PATCH].contains(&operation.method);
    may || operation.body.is_object()
}

/// Values that are not of these types.
fn of_other_types(allowed: &[&str]) -> Vec<Value> {
    let values = [
        ("string", json!("text")),
        ("number", json!(1.5)),
        ("boolean", json!(true)),
        ("array", json!([[]])),
        ("object", json!({ "a": 1 })),
    ];
    let is_other = |kind: &str| !allowed.is_empty() && !allowed.contains(&kind);
    let other = values.into_iter().filter(|(kind, _)| is_other(kind));
    other.map(|(_, value)| value).collect()
}

fn nested(levels: usize, start: &str, end: &str) -> String {
    format!("{}1{}", start.repeat(levels), end.repeat(levels))
}

/// The body as text, with one member put in as it is written.
fn written(mut body: Map<String, Value>, name: &str, member: &str) -> Vec<u8> {
    body.remove(name);
    let rest = Value::Object(body).to_string();
    let comma = if rest == "{}" { "" } else { "," };
    format!("{{{}:{member}{comma}{}", json!(name), &rest[1..]).into_bytes()
}

#[tokio::test]
async fn bodies_that_do_not_fit_are_refused_with_the_field_and_change_nothing() -> anyhow::Result<()>
{
    on_each_database(async |tried| {
        let before = tried.shown().await?;
        for operation in tried.operations.clone().iter().filter(|each| takes_body(each)) {
            malformed(tried, operation).await;
            wrong_members(tried, operation).await;
            too_large(tried, operation).await;
        }
        tried.is_still(&before).await?;
        Ok(())
    })
    .await
}

/// Bodies that are not JSON, or not an object.
async fn malformed(tried: &mut Tried, to: &Operation) {
    let deep = 10_000;
    let bodies = [
        String::new(),
        "{".to_owned(),
        "not json".to_owned(),
        "{} {}".to_owned(),
        "1".to_owned(),
        "null".to_owned(),
        "\"text\"".to_owned(),
        nested(deep, "[", "]"),
    ];
    // Unknown members are ignored at any depth; another member must be missing or wrong as well.
    let has_needed = to.members().iter().any(|(_, _, is_needed)| *is_needed);
    let unknown = [nested(deep, "{\"a\":", "}"), nested(deep, "{\"metadata\":[", "]}")];
    let unknown = unknown.into_iter().filter(|_| has_needed || to.body.is_null());
    for body in bodies.into_iter().chain(unknown) {
        tried.send(to, body.into_bytes(), "", Expected::Refused).await;
    }
    tried.send(to, b"{\"name\":\"\xff\xfe\"}".to_vec(), "", Expected::Refused).await;
    let form = b"name=a&value=1".to_vec();
    let address = to.address(&tried.known, None);
    let kind = "application/x-www-form-urlencoded";
    tried.send_as(to, &address, kind, form, ("", Expected::Refused)).await;
    if to.path != TAKES_LISTS {
        tried.send(to, b"[]".to_vec(), "", Expected::Refused).await;
        tried.send(to, b" [\"a\", null, [\"b\"]]".to_vec(), "", Expected::Refused).await;
    }
}

/// Wrong, missing and unknown members.
async fn wrong_members(tried: &mut Tried, to: &Operation) {
    let known = tried.known.clone();
    for (name, schema, is_required) in to.members() {
        let sample = || to.sample(&known);
        let allowed = types(schema);
        for value in of_other_types(&allowed) {
            // JSON has one kind of numbers, and a whole one is both.
            if allowed == ["number"] && value.is_number() {
                continue;
            }
            let mut body = sample();
            body.insert(name.to_owned(), value);
            let body = Value::Object(body).to_string();
            tried.send(to, body.into_bytes(), name, Expected::Refused).await;
        }
        if allowed.contains(&"integer") || allowed.contains(&"number") {
            let body = written(sample(), name, "1e400");
            tried.send(to, body, name, Expected::Refused).await;
        }
        if allowed.contains(&"integer") {
            let body = written(sample(), name, "9223372036854775808");
            tried.send(to, body, name, Expected::Refused).await;
        }
        for value in of_other_types(&types(&schema["items"])) {
            let mut body = sample();
            body.insert(name.to_owned(), json!([value]));
            let body = Value::Object(body).to_string();
            tried.send(to, body.into_bytes(), name, Expected::Refused).await;
        }
        // Of whatever form it is, it is not this deep.
        let body = written(sample(), name, &nested(10_000, "[", "]"));
        tried.send(to, body, name, Expected::Refused).await;
        if is_required {
            let mut body = sample();
            body.remove(name);
            let body = Value::Object(body).to_string();
            tried.send(to, body.into_bytes(), name, Expected::Refused).await;
            // Nothing at all is there: each is named.
            tried.send(to, b"{}".to_vec(), name, Expected::Refused).await;
        }
    }
    if to.is_strict() {
        let body = written(to.sample(&known), "colour", "\"red\"");
        tried.send(to, body, "colour", Expected::Refused).await;
    }
}

async fn too_large(tried: &mut Tried, to: &Operation) {
    // Batches and components have separate limits.
    let is_batch = to.path.ends_with("/ingestion");
    let n_bytes = if is_batch { TOO_LARGE } else { (MAX_BODY_KIB << 10) + 1 };
    let expected = match to.body.is_object() {
        true => Expected::TooLarge,
        false => Expected::Refused,
    };
    let body = format!("{{\"name\":\"{}\"}}", "x".repeat(n_bytes));
    tried.send(to, body.into_bytes(), "", expected).await;
}

/// Texts that are no value of a parameter of this kind.
fn no_values_of(kind: &str, name: &str) -> &'static [&'static str] {
    match (kind, name) {
        ("integer", "page" | "limit") => {
            &["x", "0", "-1", "1.5", "1e3", "99999999999999999999", "%20", "%00", "0x1"]
        }
        // By RFC 7644 a value below the minimum counts as the minimum.
        ("integer", "startIndex" | "count") => &["x", "1.5", "99999999999999999999", "%00"],
        ("integer", _) => &["x", "-1", "1.5", "99999999999999999999", "%00"],
        ("number", _) => &["x", "NaN", "inf", "1e999", "%00"],
        ("boolean", _) => &["yes", "2", "%00"],
        ("date-time", _) => &[
            "yesterday",
            "2026-13-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-01-01T25:00:00Z",
            "123456-01-01T00:00:00Z",
            "%00",
        ],
        (_, "filter") => {
            &["x", "{}", "1", "[1]", "[[]]", "[{}]", "%5B%00%5D", "[{\"column\":\"none\"}]"]
        }
        (_, "query") => &["x", "[]", "1", "{}", "%7B%00%7D"],
        (_, "cursor") => &["!", "e30", "bnVsbA", "W10", "WzEsMl0", "%00"],
        _ => &["a%00b"],
    }
}

#[tokio::test]
async fn parameters_that_do_not_fit_are_refused_by_name_and_change_nothing() -> anyhow::Result<()> {
    on_each_database(async |tried| {
        let before = tried.shown().await?;
        for operation in &tried.operations.clone() {
            for Param { name, kind, .. } in &operation.query {
                let values = no_values_of(kind, name).iter();
                for value in values {
                    query(tried, operation, name, value, Expected::Refused).await;
                }
                let deep = nested(10_000, "[", "]");
                let deep = deep.get(..8_000).unwrap_or_default().to_owned();
                let expected = match name.as_str() {
                    "filter" | "query" => Expected::Refused,
                    _ => Expected::NoFault,
                };
                query(tried, operation, name, &deep, expected).await;
                if name == "limit" {
                    query(tried, operation, name, "1001", Expected::Refused).await;
                }
            }
        }
        tried.is_still(&before).await?;
        for operation in tried.operations.clone().iter().filter(|each| each.is_read()) {
            for Param { name, .. } in &operation.query {
                let long = "x".repeat(8_000);
                let odd = ["%FF", "..%2F..", "%27%3B--", "%F0%9F%98%80", "%25", &long];
                for value in odd {
                    query(tried, operation, name, value, Expected::NoFault).await;
                }
                let twice = format!("1&{name}=2");
                query(tried, operation, name, &twice, Expected::NoFault).await;
            }
            query(tried, operation, "unheard-of", "1", Expected::NoFault).await;
            let needed = operation.query.iter().filter(|param| param.is_needed);
            for Param { name, .. } in needed {
                query(tried, operation, name, "", Expected::Refused).await;
            }
        }
        Ok(())
    })
    .await
}

async fn query(tried: &mut Tried, to: &Operation, name: &str, value: &str, expected: Expected) {
    let needed = to.needed(&tried.known, name);
    let path = to.address(&tried.known, None);
    let address = format!("{path}?{name}={}{needed}", encoded(value));
    tried.send_as(to, &address, JSON, Vec::new(), (name, expected)).await;
}

/// Values for a part of a path: whether they are no text at all.
const PARTS: [(&str, bool); 11] = [
    ("%00", true),
    ("a%00b", true),
    ("%FF", true),
    ("%ED%A0%80", true),
    ("..%2F..", false),
    ("%2E%2E", false),
    ("a%2Fb", false),
    ("%0A", false),
    ("%25", false),
    ("%27%3B--", false),
    ("%F0%9F%98%80", false),
];

#[tokio::test]
async fn names_that_databases_cannot_store_or_that_look_like_paths_cause_no_server_errors()
-> anyhow::Result<()> {
    on_each_database(async |tried| {
        let before = tried.shown().await?;
        let mut odd = Vec::new();
        for operation in &tried.operations.clone() {
            let body = match operation.body.is_object() {
                true => Value::Object(operation.sample(&tried.known)).to_string(),
                false => String::new(),
            };
            for param in operation.params() {
                for (value, is_no_text) in PARTS {
                    let address = operation.address(&tried.known, Some((&param, value)));
                    let case = (operation.clone(), address, body.clone(), param.clone());
                    if is_no_text {
                        part(tried, case, Expected::Refused).await;
                    } else {
                        odd.push(case);
                    }
                }
                let long = "x".repeat(8_000);
                let address = operation.address(&tried.known, Some((&param, &long)));
                odd.push((operation.clone(), address, body.clone(), param));
            }
        }
        tried.is_still(&before).await?;
        for case in odd {
            part(tried, case, Expected::NoFault).await;
        }
        tried.shown().await?;
        Ok(())
    })
    .await
}

async fn part(tried: &mut Tried, case: (Operation, String, String, String), expected: Expected) {
    let (to, address, body, param) = case;
    // A rule about the body may come first where the name would do.
    let field = match expected {
        Expected::Refused => param.as_str(),
        _ => "",
    };
    tried.send_as(&to, &address, JSON, body.into_bytes(), (field, expected)).await;
}

/// Forms of a text in a body: its JSON, and whether databases cannot store it.
const TEXTS: [(&str, bool); 8] = [
    (r#""a\u0000b""#, true),
    (r#""\ud800""#, true),
    (r#""x\udc00x""#, true),
    (r#""../../etc/passwd""#, false),
    (r#""%2F%00""#, false),
    (r#""\ud83d\ude00\n\t""#, false),
    (r#""0000-00-00T99:99:99Z""#, false),
    (r#""""#, false),
];

#[tokio::test]
async fn unstorable_characters_are_refused_with_the_field_or_replaced() -> anyhow::Result<()> {
    on_each_database(async |tried| {
        let before = tried.shown().await?;
        let mut rest = Vec::new();
        for operation in &tried.operations.clone() {
            // Programs tell these in bulk, about the words of others.
            let is_named = operation.path.ends_with("/ingestion")
                || operation.path == TAKES_LISTS
                || operation.takes_one();
            for (name, schema, _) in operation.members() {
                let allowed = types(schema);
                let is_any = allowed.is_empty() || allowed.contains(&"object");
                let is_list = types(&schema["items"]) == ["string"];
                for (text, is_no_text) in TEXTS {
                    let mut forms = Vec::new();
                    if allowed.is_empty() || allowed.contains(&"string") {
                        forms.push(text.to_owned());
                    }
                    if is_any {
                        forms.push(format!("{{{text}:{text}}}"));
                    }
                    if is_list {
                        forms.push(format!("[{text},{text}]"));
                    }
                    for form in forms {
                        let sample = operation.sample(&tried.known);
                        let body = written(sample, name, &form);
                        if is_no_text && !is_named {
                            tried.send(operation, body, name, Expected::Refused).await;
                        } else {
                            rest.push((operation.clone(), body));
                        }
                    }
                }
                let long = format!("\"{}\"", "x".repeat(100_000));
                rest.push((
                    operation.clone(),
                    written(operation.sample(&tried.known), name, &long),
                ));
                let twice = format!("1,{}:2", json!(name));
                rest.push((
                    operation.clone(),
                    written(operation.sample(&tried.known), name, &twice),
                ));
            }
        }
        tried.is_still(&before).await?;
        rest.extend(telemetry_with_bad_texts(&tried.operations));
        for (operation, body) in rest {
            tried.send(&operation, body, "", Expected::NoFault).await;
        }
        // All accepted data can be read.
        tried.shown().await?;
        Ok(())
    })
    .await
}

/// Telemetry with such texts in each text field.
fn telemetry_with_bad_texts(operations: &[Operation]) -> Vec<(Operation, Vec<u8>)> {
    let mut bodies = Vec::new();
    for operation in operations {
        if operation.takes_one() {
            let odd = TEXTS.iter().filter(|(_, is_no_text)| *is_no_text);
            let members = odd.flat_map(|(text, _)| members_with(text));
            bodies.extend(members.map(|body| (operation.clone(), body.into_bytes())));
        }
        if operation.path.ends_with("/ingestion") {
            let members = TEXTS.iter().flat_map(|(text, _)| members_with(text));
            let events = members.enumerate().map(|(at, body)| {
                format!(
                    r#"{{"id":"e{at}","type":"span-create","timestamp":"2026-03-01T10:00:00Z","body":{body}}}"#
                )
            });
            let events: Vec<String> = events.collect();
            let body = format!(r#"{{"batch":[{}]}}"#, events.join(","));
            bodies.push((operation.clone(), body.into_bytes()));
        }
    }
    bodies
}

/// Members that spans and their like have, each with the text and with what holds it.
fn members_with(text: &str) -> Vec<String> {
    let plain = [
        "id",
        "traceId",
        "name",
        "userId",
        "sessionId",
        "version",
        "environment",
        "model",
        "startTime",
        "level",
        "statusMessage",
        "parentObservationId",
        "input",
        "output",
    ];
    let holding = ["input", "output", "metadata", "tags", "usageDetails"];
    let object = format!("{{{text}:[{text}]}}");
    let list = format!("[{text}]");
    let plain = plain.iter().map(|name| (*name, text));
    let objects = holding.iter().map(|name| (*name, object.as_str()));
    let lists = holding.iter().map(|name| (*name, list.as_str()));
    plain
        .chain(objects)
        .chain(lists)
        .map(|(name, value)| {
            format!(r#"{{"spanId":"s","generationId":"g",{}:{value}}}"#, json!(name))
        })
        .collect()
}
