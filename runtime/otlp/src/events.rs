//! Create and update events of the batch API as patches of observations.
//!
//! One event becomes one [`Patch`]; [`perpend_domain::patch::merge`] combines several. The module is in this crate because it
//! shares the parsing of usage, cost, environments, media and tool calls, and the limits, with the mapping of spans.
//!
//! Invariants: those of this crate. An invalid event is reported with its field and does not affect others.

use perpend_domain::batch::Media;
use perpend_domain::ids::{InvalidId, ObservationId, TraceId, fits};
use perpend_domain::issue::Issue;
use perpend_domain::observation::{Level, ObservationKind as Kind, PromptLink, Usage};
use perpend_domain::patch::{Patch, PatchSubject, record_id};
use perpend_domain::payload::Payload;
use perpend_domain::time::Timestamp;
use perpend_domain::usage::meaning;
use serde_json::{Map, Value as Json};

use crate::limits::{Limits, cut_chars};
use crate::media::Extractor;
use crate::notes::Notes;
use crate::{facts, mapping, metadata, tools, usage};

/// The id of the record of a trace is two characters longer than the trace id, and has at most 800 characters.
const TOO_LONG: &str =
    "is too long: the id of a trace in an event must have at most 798 characters";

/// The content of one event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A patch of a trace or an observation, and its extracted media.
    Patch(Box<Patch>, Vec<Media>),
    /// A score, as in the scores endpoint, with the time of the event.
    Score(Json, Timestamp),
    /// A message of a client library about itself; accepted and ignored.
    Log,
}

/// Kinds of `-create` and `-update` events.
const KINDS: [(&str, Kind); 10] = [
    ("span", Kind::Span),
    ("generation", Kind::Generation),
    ("event", Kind::Event),
    ("agent", Kind::Agent),
    ("tool", Kind::Tool),
    ("chain", Kind::Chain),
    ("retriever", Kind::Retriever),
    ("evaluator", Kind::Evaluator),
    ("embedding", Kind::Embedding),
    ("guardrail", Kind::Guardrail),
];

/// Reads one event of a batch.
///
/// # Errors
/// [`Issue`] with the first invalid field.
pub fn read_event(event: &Json, limits: &Limits) -> Result<Event, Issue> {
    let members = event.as_object().ok_or_else(|| Issue::new("event", "an object is expected"))?;
    let envelope = Fields { members, prefix: "" };
    let id = envelope.required("id")?;
    if !fits(id) {
        return Err(envelope.fault("id", &InvalidId.to_string()));
    }
    let kind = envelope.required("type")?;
    let at = envelope.time("timestamp")?.ok_or_else(|| Issue::new("timestamp", "is missing"))?;
    if kind == "sdk-log" {
        return Ok(Event::Log);
    }
    let body = members.get("body").and_then(Json::as_object);
    let body = body.ok_or_else(|| Issue::new("body", "an object is expected"))?;
    if kind == "score-create" {
        return Ok(Event::Score(Json::Object(body.clone()), at));
    }
    let body = Fields { members: body, prefix: "body." };
    let part = EventReader { body, event_id: id, at, limits };
    let (patch, media) = match kind {
        "trace-create" => part.trace()?,
        other => {
            let (kind, is_update) = match other.rsplit_once('-') {
                Some((name, "create")) => (name, false),
                Some((name, "update")) => (name, true),
                _ => return Err(unknown(other)),
            };
            let kind = match kind {
                "observation" => part.kind()?,
                name => {
                    let found = KINDS.iter().find(|(known, _)| *known == name);
                    found.ok_or_else(|| unknown(other))?.1
                }
            };
            part.observation(kind, is_update)?
        }
    };
    Ok(Event::Patch(Box::new(patch), media))
}

fn unknown(kind: &str) -> Issue {
    Issue::new(
        "type",
        format!(
            "must be a type of event such as trace-create, span-create, generation-update or score-create; \
             got {:?}",
            cut_chars(kind, 40)
        ),
    )
}

/// Members of an object with the path that leads to it. Null is absent.
#[derive(Clone, Copy)]
struct Fields<'e> {
    members: &'e Map<String, Json>,
    prefix: &'static str,
}

impl<'e> Fields<'e> {
    fn get(&self, name: &str) -> Option<&'e Json> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    fn fault(&self, name: &str, message: &str) -> Issue {
        Issue::new(&format!("{}{name}", self.prefix), message)
    }

    fn text(&self, name: &str) -> Result<Option<&'e str>, Issue> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.fault(name, "a string is expected")),
        }
    }

    /// Text without what is there and empty.
    fn word(&self, name: &str) -> Result<Option<String>, Issue> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        Ok(text.map(str::to_owned))
    }

    fn required(&self, name: &str) -> Result<&'e str, Issue> {
        self.text(name)?
            .filter(|text| !text.is_empty())
            .ok_or_else(|| self.fault(name, "is missing"))
    }

    fn time(&self, name: &str) -> Result<Option<Timestamp>, Issue> {
        let text = self.text(name)?;
        text.map(Timestamp::parse).transpose().map_err(|error| self.fault(name, &error.to_string()))
    }

    fn id<T>(&self, name: &str, read: fn(&str) -> Option<T>) -> Result<Option<T>, Issue> {
        let Some(text) = self.text(name)?.filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let bad = || self.fault(name, &InvalidId.to_string());
        read(text).map(Some).ok_or_else(bad)
    }

    /// An identifier of an entity without a table, such as a user.
    fn key(&self, name: &str) -> Result<Option<String>, Issue> {
        let key = self.word(name)?;
        match key.as_deref().is_none_or(fits) {
            true => Ok(key),
            false => Err(self.fault(name, "at most 800 characters and 1,200 bytes are kept")),
        }
    }

    fn truth(&self, name: &str) -> Result<Option<bool>, Issue> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::Bool(truth)) => Ok(Some(*truth)),
            Some(_) => Err(self.fault(name, "true or false is expected")),
        }
    }

    fn object(&self, name: &str) -> Result<Option<&'e Map<String, Json>>, Issue> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::Object(members)) => Ok(Some(members)),
            Some(_) => Err(self.fault(name, "an object is expected")),
        }
    }

    fn tags(&self) -> Result<Vec<String>, Issue> {
        let Some(value) = self.get("tags") else {
            return Ok(Vec::new());
        };
        let list = value.as_array().map(|list| {
            let texts = list.iter().map(|tag| tag.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>()
        });
        list.flatten().ok_or_else(|| self.fault("tags", "a list of strings is expected"))
    }

    /// Metadata is an object; another value becomes a member of an object.
    fn metadata(&self) -> Map<String, Json> {
        match self.get("metadata") {
            None => Map::new(),
            Some(Json::Object(members)) => members.clone(),
            Some(other) => Map::from_iter([("metadata".to_owned(), other.clone())]),
        }
    }
}

struct EventReader<'e> {
    body: Fields<'e>,
    event_id: &'e str,
    at: Timestamp,
    limits: &'e Limits,
}

impl EventReader<'_> {
    /// The kind that the body names.
    fn kind(&self) -> Result<Kind, Issue> {
        let name = self.body.required("type")?;
        name.parse().map_err(|_| self.body.fault("type", "must be a type of observation"))
    }

    fn trace(&self) -> Result<(Patch, Vec<Media>), Issue> {
        let body = &self.body;
        let id = body.id("id", |id| TraceId::to_store(id).ok())?;
        // A missing id is derived from the event, so that a retry refers to the same trace.
        let id = id
            .or_else(|| TraceId::to_store(self.event_id).ok())
            .filter(|id| record_id(id).is_some_and(|record| fits(record.as_str())))
            .ok_or_else(|| body.fault("id", TOO_LONG))?;
        let mut patch = self.patch(false, PatchSubject::Trace(id.clone()))?;
        patch.start = body.time("timestamp")?;
        patch.user_id = body.key("userId")?;
        patch.session_id = body.key("sessionId")?;
        patch.release = body.word("release")?;
        patch.public = body.truth("public")?;
        patch.tags = body.tags()?;
        let record = record_id(&id).ok_or_else(|| body.fault("id", TOO_LONG))?;
        let media = self.content(&mut patch, &id, &record, Notes::default());
        Ok((patch, media))
    }

    fn observation(&self, kind: Kind, is_update: bool) -> Result<(Patch, Vec<Media>), Issue> {
        let body = &self.body;
        let id = body.id("id", |id| ObservationId::to_store(id).ok())?;
        if id.is_none() && is_update {
            return Err(body.fault("id", "is missing"));
        }
        let id = id
            .or_else(|| ObservationId::to_store(self.event_id).ok())
            .ok_or_else(|| body.fault("id", "is missing"))?;
        let mut patch = self.patch(is_update, PatchSubject::Observation(id.clone()))?;
        patch.kind = kind;
        patch.trace_id = body.id("traceId", |id| TraceId::to_store(id).ok())?;
        patch.parent_id = body.id("parentObservationId", |id| ObservationId::to_store(id).ok())?;
        patch.start = body.time("startTime")?;
        patch.end = body.time("endTime")?;
        patch.completion_start = body.time("completionStartTime")?;
        if kind == Kind::Event {
            // An event has no duration: it ends when it is reported. An update does not change the time.
            let reported_at = (!is_update).then_some(self.at);
            patch.end = patch.end.or(patch.start).or(reported_at);
        }
        let level = body.text("level")?.map(str::parse::<Level>).transpose();
        patch.level = level
            .map_err(|_| body.fault("level", "DEBUG, DEFAULT, WARNING or ERROR is expected"))?;
        patch.status_message = body.word("statusMessage")?;
        patch.model = body.word("model")?;
        patch.model_parameters = body.object("modelParameters")?.cloned();
        patch.prompt = self.prompt()?;
        let mut notes = Notes::default();
        self.numbers(&mut patch, &mut notes)?;
        let trace = patch.trace_id.clone();
        let trace = trace
            .or_else(|| TraceId::to_store(id.as_str()).ok())
            .ok_or_else(|| body.fault("traceId", "is missing"))?;
        let media = self.content(&mut patch, &trace, &id, notes);
        Ok((patch, media))
    }

    /// The common members of traces and observations.
    fn patch(&self, is_update: bool, about: PatchSubject) -> Result<Patch, Issue> {
        let body = &self.body;
        let name = body.word("name")?;
        let mut patch = Patch::new(self.event_id.to_owned(), self.at, is_update, about);
        patch.name = name.filter(|name| !name.trim().is_empty());
        patch.version = body.word("version")?;
        patch.environment = body.text("environment")?.map(str::to_owned);
        let payload = |name| body.get(name).cloned().map(Payload::from_value);
        patch.input = payload("input");
        patch.output = payload("output");
        patch.metadata = body.metadata();
        Ok(patch)
    }

    /// Name and version count together only.
    fn prompt(&self) -> Result<Option<PromptLink>, Issue> {
        let name = self.body.word("promptName")?;
        let version =
            match self.body.get("promptVersion") {
                None => None,
                Some(value) => Some(value.as_i64().ok_or_else(|| {
                    self.body.fault("promptVersion", "a whole number is expected")
                })?),
            };
        Ok(match (name, version) {
            (Some(name), Some(_)) => Some(PromptLink { name, version }),
            _ => None,
        })
    }

    fn numbers(&self, patch: &mut Patch, notes: &mut Notes) -> Result<(), Issue> {
        if let Some(details) = self.body.object("usageDetails")? {
            patch.usage = self.usage("usageDetails", details, notes)?;
        }
        if let Some(costs) = self.body.object("costDetails")? {
            patch.cost = usage::native_cost(costs, notes);
        }
        let Some(old) = self.body.object("usage")? else {
            return Ok(());
        };
        if patch.usage.is_empty() {
            patch.usage = self.usage("usage", old, notes)?;
        }
        if patch.cost.is_empty() {
            patch.cost = usage::legacy_cost(old);
        }
        Ok(())
    }

    /// Usage in this member. Tokens are whole.
    fn usage(
        &self,
        field: &str,
        details: &Map<String, Json>,
        notes: &mut Notes,
    ) -> Result<Usage, Issue> {
        let usage = usage::native_usage(details).noted(field, notes);
        for (bucket, quantity) in &usage {
            if bucket != "total" && meaning(bucket).is_some() && !quantity.is_whole() {
                let message = format!("must be a whole number of tokens, got {quantity}");
                return Err(self.body.fault(&format!("{field}.{bucket}"), &message));
            }
        }
        Ok(usage)
    }

    /// Takes media out, cuts what is too long, finds tool calls.
    fn content(
        &self,
        patch: &mut Patch,
        trace: &TraceId,
        id: &ObservationId,
        mut notes: Notes,
    ) -> Vec<Media> {
        let mut found = Vec::new();
        let mut extractor = Extractor {
            trace_id: trace,
            observation_id: id,
            max_bytes: self.limits.max_media_bytes,
            found: &mut found,
        };
        extractor.payload(&mut patch.input, "input");
        extractor.payload(&mut patch.output, "output");
        extractor.metadata(&mut patch.metadata);
        // Of the whole values, and without the media in them.
        patch.tool_calls = tools::calls_in(patch.output.as_ref(), &mut notes);
        patch.tool_definitions = tools::definitions_in(patch.input.as_ref(), patch.kind);
        metadata::limit(&mut patch.metadata, "", self.limits, &mut notes);
        mapping::limit_payload(&mut patch.input, "input", self.limits, &mut notes);
        mapping::limit_payload(&mut patch.output, "output", self.limits, &mut notes);
        self.limit_facts(patch, &mut notes);
        notes.write(&mut patch.metadata);
        found
    }

    /// Cuts facts that are too long, and normalises the environment.
    fn limit_facts(&self, patch: &mut Patch, notes: &mut Notes) {
        let limits = self.limits;
        if let Some(name) = &mut patch.name {
            let id = match &patch.about {
                PatchSubject::Trace(id) => id.as_str(),
                PatchSubject::Observation(id) => id.as_str(),
            };
            notes.limit_name("name", name, limits.max_name_chars, id);
        }
        if let Some(message) = &mut patch.status_message {
            notes.limit_chars("statusMessage", message, limits.max_status_chars);
        }
        if let Some(environment) = &mut patch.environment {
            *environment = facts::normalized_environment(environment, false, notes);
        }
        let prompt = patch.prompt.as_mut();
        let facts = [
            ("model", patch.model.as_mut()),
            ("release", patch.release.as_mut()),
            ("version", patch.version.as_mut()),
            ("promptName", prompt.map(|prompt| &mut prompt.name)),
        ];
        for (name, fact) in facts {
            notes.limit_fact(name, fact);
        }
        patch.tags = facts::limited_tags(std::mem::take(&mut patch.tags), notes);
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::patch::merge;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(kind: &str, body: Json) -> Result<Event, Issue> {
        let event =
            json!({ "id": "e", "type": kind, "timestamp": "2026-03-01T10:00:00Z", "body": body });
        read_event(&event, &Limits::default())
    }

    fn patch(kind: &str, body: Json) -> Patch {
        match read(kind, body).unwrap() {
            Event::Patch(patch, _) => *patch,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_event_ends_at_its_start_or_report_time() {
        let reported_at = Timestamp::parse("2026-03-01T10:00:00Z").unwrap();
        let started_at = Timestamp::parse("2026-03-01T09:00:00Z").unwrap();
        let without = patch("event-create", json!({ "id": "o" }));
        assert_eq!(merge([&without]).unwrap().end, Some(reported_at));
        let with = json!({ "id": "o", "startTime": "2026-03-01T09:00:00Z" });
        let with = patch("event-create", with);
        assert_eq!(merge([&with]).unwrap().end, Some(started_at));
        assert_eq!(patch("event-update", json!({ "id": "o" })).end, None);
    }

    #[test]
    fn each_type_of_event_is_read() {
        for (name, kind) in KINDS {
            for verb in ["create", "update"] {
                let read = patch(&format!("{name}-{verb}"), json!({ "id": "o" }));
                assert_eq!((read.kind, read.is_update), (kind, verb == "update"));
            }
        }
        let read_as = patch("observation-create", json!({ "id": "o", "type": "TOOL" }));
        assert_eq!(read_as.kind, Kind::Tool);
        let trace = patch(
            "trace-create",
            json!({ "id": "t", "userId": "u", "tags": ["a"], "public": true, "metadata": "plain" }),
        );
        assert_eq!((trace.user_id.as_deref(), trace.public), (Some("u"), Some(true)));
        assert_eq!(trace.metadata["metadata"], "plain");
        assert_eq!(read("sdk-log", json!({ "log": 1 })), Ok(Event::Log));
        let score = read("score-create", json!({ "name": "n" })).unwrap();
        assert!(matches!(score, Event::Score(body, _) if body["name"] == "n"));
        for blank in ["", " ", "\n\n \t", "\u{3000}"] {
            assert_eq!(patch("span-create", json!({ "name": blank })).name, None);
        }
        let unnamed = patch("span-create", json!({}));
        assert_eq!(unnamed.about, PatchSubject::Observation(ObservationId::new("e").unwrap()));
    }

    #[test]
    fn every_shape_of_usage_comes_out_the_same() {
        let usage = |body: Json| patch("generation-create", body).usage;
        let plain = usage(json!({ "usageDetails": { "input": 8, "output": 2 } }));
        assert_eq!(plain, usage(json!({ "usage": { "input": 8, "output": 2, "unit": "TOKENS" } })));
        let old =
            json!({ "usage": { "promptTokens": 8, "completionTokens": 2, "totalTokens": 10 } });
        assert_eq!(plain, usage(old));
        let chat = json!({ "prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10 });
        assert_eq!(plain, usage(json!({ "usageDetails": chat })));
        let both = json!({ "usage": { "input": 99 }, "usageDetails": { "input": 8, "output": 2 } });
        assert_eq!(plain, usage(both));
        let cost = json!({ "usage": { "input": 8, "inputCost": 0.5, "outputCost": 0.25 } });
        let cost = patch("generation-create", cost).cost;
        assert_eq!((cost["input"], cost["total"]), (0.5, 0.75));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (kind, body, field) in [
            ("span-create", json!({ "name": 5 }), "body.name"),
            ("span-create", json!({ "startTime": "today" }), "body.startTime"),
            ("span-create", json!({ "level": "LOUD" }), "body.level"),
            ("span-update", json!({}), "body.id"),
            ("span-create", json!({ "id": "a\rb" }), "body.id"),
            ("generation-create", json!({ "usage": 3 }), "body.usage"),
            ("generation-create", json!({ "promptVersion": "1" }), "body.promptVersion"),
            ("trace-create", json!({ "tags": [1] }), "body.tags"),
            ("trace-create", json!({ "public": "yes" }), "body.public"),
            ("observation-create", json!({}), "body.type"),
            ("thing-create", json!({}), "type"),
            ("thing", json!({}), "type"),
            ("span-create", json!([]), "body"),
        ] {
            let error = read(kind, body.clone()).unwrap_err();
            assert_eq!(error.field(), field, "{kind} {body}: {error}");
        }
        for (kind, body, field) in [
            ("span-create", json!({ "id": long() }), "body.id"),
            ("span-create", json!({ "traceId": long() }), "body.traceId"),
            ("trace-create", json!({ "userId": long() }), "body.userId"),
            ("trace-create", json!({ "sessionId": "字".repeat(500) }), "body.sessionId"),
        ] {
            let error = read(kind, body).unwrap_err();
            assert_eq!(error.field(), field);
            assert!(error.to_string().len() < 200);
        }
        for (event, field) in [
            (json!({ "id": long(), "type": "span-create" }), "id"),
            (json!(1), "event"),
            (json!({ "type": "span-create" }), "id"),
            (json!({ "id": "e", "type": "span-create" }), "timestamp"),
        ] {
            let error = read_event(&event, &Limits::default()).unwrap_err();
            assert_eq!(error.field(), field);
        }
    }

    fn long() -> String {
        "x".repeat(1 << 20)
    }

    #[test]
    fn facts_that_are_too_long_are_cut_and_noted() {
        let body = json!({ "id": "o", "traceId": "t", "name": long(), "model": long(), "version": long(),
            "promptName": long(), "promptVersion": 1, "metadata": { "k": 1 } });
        let read = patch("generation-create", body);
        assert_eq!(read.name.unwrap().len(), 1_024);
        assert_eq!(read.model.unwrap().len(), 800);
        assert_eq!(read.prompt.unwrap().name.len(), 800);
        let notes =
            json!({ "name": 1 << 20, "model": 1 << 20, "version": 1 << 20, "promptName": 1 << 20 });
        assert_eq!((&read.metadata["truncated"], &read.metadata["k"]), (&notes, &json!(1)));
        let body = json!({ "id": "t", "release": long(), "tags": ["short", long()] });
        let read = patch("trace-create", body);
        assert_eq!((read.tags[1].len(), read.release.unwrap().len()), (200, 800));
        assert_eq!(read.metadata["truncated"]["tags"], 1 << 20);
    }

    #[test]
    fn media_and_tool_calls_are_found_in_parts_too() {
        let image = "data:image/png;base64,iVBORw0KGgo=";
        let event = read(
            "generation-create",
            json!({ "id": "o", "traceId": "t", "input": image,
            "output": { "role": "assistant", "tool_calls": [{ "id": "1", "function": { "name": "f", "arguments": "{}" } }] } }),
        );
        let Ok(Event::Patch(patch, media)) = event else {
            panic!("{event:?}");
        };
        assert_eq!((media.len(), media[0].trace_id.as_str()), (1, "t"));
        assert_eq!(patch.tool_calls[0].name, "f");
        let merged = merge([&*patch]).unwrap();
        assert_eq!(merged.called_tools, ["f"]);
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<f64>().prop_map(Json::from),
            ".{0,8}".prop_map(Json::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::btree_map("[a-zA-Z]{1,8}", inner, 0..4)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(
            kind in "(trace|span|generation|observation|score)-(create|update)",
            field in "(id|name|usage|usageDetails|costDetails|metadata|input|tags|level|type|startTime)",
            value in any_json(),
        ) {
            let _ = read(&kind, json!({ field: value }));
        }
    }
}
