//! The narrow facts of an observation: name, model, provider, parameters, prompt, user, session, tags,
//! level, environment, release, version (otlp.md 2.6, 2.8, 2.10, 2.11, 2.13, 2.14).

use std::borrow::Cow;
use std::collections::BTreeSet;

use perpend_domain::join::is_present;
use perpend_domain::observation::{Level, ObservationKind as Kind, PromptLink};
use serde_json::{Map, Value as Json};

use crate::attributes::{any_text, default_json, object_of};
use crate::model::Value;
use crate::notes::Notes;
use crate::source::Source;

/// Longest tag in characters.
const MAX_TAG_CHARS: usize = 200;
const MAX_TAGS: usize = 100;
/// Most parts of one text that are read as tags.
const MAX_TAG_PARTS: usize = 1_000;

pub(crate) fn name<'s>(source: &Source<'s>, kind: Kind) -> Cow<'s, str> {
    let attributes = source.attributes;
    let is_tool = kind == Kind::Tool;
    let is_blank = |name: &str| name.trim().is_empty();
    let is_set = |name: &&'s str| !is_blank(name);
    let tool = |keys: &[&str]| attributes.first_text(keys).filter(|_| is_tool);
    let found = tool(&["gen_ai.tool.name"])
        .filter(is_set)
        .or_else(|| attributes.text("genkit:name").filter(is_set))
        .or_else(|| tool(&["ai.toolCall.name", "tool.name"]).filter(is_set))
        .or_else(|| attributes.text("logfire.msg").filter(is_set));
    if let Some(name) = found {
        return Cow::Borrowed(name);
    }
    if let Some(operation) = attributes.text("ai.operationId") {
        return match attributes.text("ai.telemetry.functionId") {
            Some(function) => Cow::Owned(format!("{function}:{operation}")),
            None => Cow::Borrowed(operation),
        };
    }
    let name = source.span.name.as_ref();
    Cow::Borrowed(if is_blank(name) { "unnamed" } else { name })
}

/// The model that replied.
pub(crate) fn model(source: &Source<'_>) -> Option<String> {
    let attributes = source.attributes;
    let known = |text: &&str| !text.trim().is_empty() && !text.eq_ignore_ascii_case("unknown");
    let first = |keys: &[&str]| keys.iter().find_map(|key| attributes.text(key).filter(known));
    if let Some(model) =
        attributes.native_text("observation.model.name").filter(known).or_else(|| {
            first(&[
                "gen_ai.response.model",
                "ai.response.model",
                "ai.model.id",
                "gen_ai.request.model",
                "llm.response.model_name",
                "llm.response.model",
                "llm.model_name",
                "embedding.model_name",
                "reranker.model_name",
                "llm.request.model_name",
            ])
        })
    {
        return Some(model.to_owned());
    }
    if let Some(model) = attributes.get("mlflow.llm.model").and_then(any_text)
        && known(&model.as_ref())
    {
        return Some(model.into_owned());
    }
    let is_genkit_model = attributes.text("genkit:metadata:subtype") == Some("model");
    let inside = |key: &str| {
        let parameters = attributes.object(key)?;
        let text = |name: &str| parameters.get(name)?.as_str().filter(known).map(str::to_owned);
        text("model").or_else(|| text("model_name"))
    };
    first(&["genkit:name"])
        .filter(|_| is_genkit_model)
        .or_else(|| first(&["aisdk.model.id"]))
        .map(str::to_owned)
        .or_else(|| inside("llm.invocation_parameters"))
        .or_else(|| inside("embedding.invocation_parameters"))
        .or_else(|| first(&["model"]).map(str::to_owned))
}

pub(crate) fn provider(source: &Source<'_>) -> Option<String> {
    let attributes = source.attributes;
    let text = attributes
        .first_text(&[
            "gen_ai.provider.name",
            "gen_ai.system",
            "llm.provider",
            "llm.system",
            "ai.model.provider",
            "aisdk.model.provider",
        ])
        .map(Cow::Borrowed)
        .or_else(|| attributes.get("mlflow.llm.provider").and_then(any_text))?;
    let provider = text.trim().to_lowercase();
    // The dotted names of the conventions are providers; other dots separate the provider from its API.
    let is_dotted_name = ["azure.ai.", "aws.", "gcp.", "ibm.", "x.", "moonshot."]
        .iter()
        .any(|company| provider.starts_with(company));
    match provider.split_once('.') {
        Some((company, _)) if !is_dotted_name => Some(company.to_owned()),
        _ => Some(provider),
    }
    .filter(|provider| !provider.is_empty())
}

/// Keys of a whole request that are no parameters.
const NOT_PARAMETERS: [&str; 18] = [
    "model",
    "model_name",
    "messages",
    "input",
    "prompt",
    "instructions",
    "system",
    "contents",
    "system_instruction",
    "tools",
    "functions",
    "id",
    "object",
    "created_at",
    "output",
    "usage",
    "status",
    "error",
];

pub(crate) fn parameters(source: &Source<'_>, kind: Kind) -> Map<String, Json> {
    let attributes = source.attributes;
    let native = attributes.native("observation.model.parameters").and_then(object_of);
    if native.is_none() && !kind.is_generation_like() {
        return Map::new();
    }
    let from_json = native.or_else(|| {
        ["llm.invocation_parameters", "embedding.invocation_parameters", "model_config"]
            .iter()
            .find_map(|key| attributes.object(key))
    });
    let mut parameters = match from_json {
        Some(mut object) => {
            object.retain(|key, _| !NOT_PARAMETERS.contains(&key.as_str()));
            object
        }
        None => listed_parameters(source),
    };
    parameters.retain(|_, value| is_present(value));
    if kind.is_generation_like()
        && !parameters.contains_key("service_tier")
        && let Some(tier) = service_tier(source)
    {
        parameters.insert("service_tier".to_owned(), Json::String(tier));
    }
    parameters
}

/// Parameters sent as one attribute each.
fn listed_parameters(source: &Source<'_>) -> Map<String, Json> {
    let mut parameters = Map::new();
    let mut prefixes = vec!["gen_ai.request.", "llm.invocation_parameters."];
    if source.ai_operation.is_some() {
        prefixes.push("ai.settings.");
    }
    for prefix in prefixes {
        let mut entries = source.attributes.with_prefix(prefix).to_vec();
        entries.sort_unstable_by_key(|entry| entry.order());
        for entry in entries {
            let name = &entry.key[prefix.len()..];
            let is_model = prefix == "gen_ai.request." && name == "model";
            if !name.is_empty() && !is_model {
                parameters.insert(name.to_owned(), entry.value.to_json());
            }
        }
    }
    if source.ai_operation.is_some()
        && let Some(choice) = source.attributes.get("ai.prompt.toolChoice")
    {
        parameters.insert("toolChoice".to_owned(), default_json(choice));
    }
    parameters
}

/// Prices depend on it.
fn service_tier(source: &Source<'_>) -> Option<String> {
    const KEYS: [&str; 8] = [
        "openai.response.service_tier",
        "gen_ai.openai.response.service_tier",
        "gen_ai.response.service_tier",
        "anthropic.response.service_tier",
        "openai.request.service_tier",
        "gen_ai.openai.request.service_tier",
        "gen_ai.request.service_tier",
        "anthropic.request.service_tier",
    ];
    let sent = source.attributes.first_text(&KEYS).map(str::to_owned);
    sent.or_else(|| {
        let metadata = source.attributes.object("ai.response.providerMetadata")?;
        let tier = metadata.get("openai")?.get("serviceTier")?.as_str()?;
        (!tier.is_empty()).then(|| tier.to_owned())
    })
}

/// The prompt a generation was made from.
pub(crate) fn prompt(source: &Source<'_>, kind: Kind) -> Option<PromptLink> {
    if kind != Kind::Generation {
        return None;
    }
    let attributes = source.attributes;
    let native = |name: &str, version: &str| {
        let name = attributes.native(name).and_then(plain_text)?;
        let version = attributes.native(version);
        Some((name, version.and_then(|value| whole(&value.to_json()))))
    };
    let from_ai_sdk = || {
        let link = attributes.object("ai.telemetry.metadata.langfusePrompt")?;
        let name = link.get("name")?.as_str()?.to_owned();
        Some((name, link.get("version").and_then(whole)))
    };
    let from_traceloop = || {
        let name = attributes.text("traceloop.prompt.key")?.to_owned();
        let version = attributes.get("traceloop.prompt.version");
        Some((name, version.and_then(|value| whole(&value.to_json()))))
    };
    native("observation.prompt.name", "observation.prompt.version")
        .or_else(|| native("prompt.name", "prompt.version"))
        .or_else(from_ai_sdk)
        .or_else(from_traceloop)
        .or_else(|| Some((attributes.text("gen_ai.prompt.name")?.to_owned(), None)))
        .map(|(name, version)| PromptLink { name, version })
}

fn whole(value: &Json) -> Option<i64> {
    let text = value.as_str().map(str::trim);
    let from_double = || {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
    };
    value.as_i64().or_else(|| text?.parse().ok()).or_else(from_double)
}

/// Text as it is, unquoted when it is a JSON string; other kinds as JSON text.
pub(crate) fn plain_text(value: &Value<'_>) -> Option<String> {
    any_text(value).map(Cow::into_owned)
}

fn id_text(field: &str, value: &Value<'_>, notes: &mut Notes) -> Option<String> {
    let text = any_text(value)?;
    let mut id = text.trim().to_owned();
    notes.limit_id(field, &mut id);
    (!id.is_empty()).then_some(id)
}

/// The end user, from the span and then from its resource.
pub(crate) fn user_id(source: &Source<'_>, notes: &mut Notes) -> Option<String> {
    let attributes = source.attributes;
    let native = |suffix: &str| attributes.native(suffix);
    native("user.id")
        .or_else(|| attributes.get("user.id"))
        .or_else(|| {
            attributes.first_native(&[
                "trace.user_id",
                "observation.metadata.langfuse_user_id",
                "trace.metadata.langfuse_user_id",
            ])
        })
        .or_else(|| {
            attributes.first(&[
                "ai.telemetry.metadata.userId",
                "ai.telemetry.metadata.user_id",
                "traceloop.association.properties.user_id",
                "enduser.id",
                "gen_ai.user",
                "llm.user",
            ])
        })
        .or_else(|| source.resource.get("user.id"))
        .and_then(|value| id_text("userId", value, notes))
}

pub(crate) fn session_id(source: &Source<'_>, notes: &mut Notes) -> Option<String> {
    let attributes = source.attributes;
    attributes
        .native("session.id")
        .or_else(|| attributes.get("session.id"))
        .or_else(|| attributes.native("trace.session_id"))
        .or_else(|| attributes.get("gen_ai.conversation.id"))
        .or_else(|| {
            attributes.first_native(&[
                "observation.metadata.langfuse_session_id",
                "trace.metadata.langfuse_session_id",
            ])
        })
        .or_else(|| {
            attributes.first(&[
                "ai.telemetry.metadata.sessionId",
                "ai.telemetry.metadata.session_id",
                "traceloop.association.properties.session_id",
            ])
        })
        .or_else(|| source.resource.get("session.id"))
        .and_then(|value| id_text("sessionId", value, notes))
}

/// Sorted and unique.
pub(crate) fn tags(source: &Source<'_>, notes: &mut Notes) -> Vec<String> {
    let attributes = source.attributes;
    let sent = attributes
        .first_native(&[
            "trace.tags",
            "tags",
            "observation.metadata.langfuse_tags",
            "trace.metadata.langfuse_tags",
        ])
        .or_else(|| {
            attributes.first(&["ai.telemetry.metadata.tags", "tag.tags", "langsmith.span.tags"])
        });
    let Some(sent) = sent else {
        return Vec::new();
    };
    let parts: Vec<String> = match default_json(sent) {
        Json::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Json::String(text) => text,
                Json::Null => String::new(),
                other => other.to_string(),
            })
            .collect(),
        Json::String(text) => {
            let text = crate::json::parse(&text)
                .and_then(|node| node.as_str().map(str::to_owned))
                .unwrap_or(text);
            let mut parts = text.split(',');
            let read = parts.by_ref().take(MAX_TAG_PARTS).map(str::to_owned).collect();
            if parts.next().is_some() {
                notes.replaced("tags", format!("only the first {MAX_TAG_PARTS} of them are read"));
            }
            read
        }
        other => vec![other.to_string()],
    };
    limited_tags(parts, notes)
}

/// Tags trimmed, truncated, sorted and unique, up to the maximum number.
pub(crate) fn limited_tags(tags: Vec<String>, notes: &mut Notes) -> Vec<String> {
    let mut unique = BTreeSet::new();
    for tag in tags {
        let mut tag = tag.trim().to_owned();
        notes.limit_chars("tags", &mut tag, MAX_TAG_CHARS);
        if !tag.is_empty() {
            unique.insert(tag);
        }
    }
    if MAX_TAGS < unique.len() {
        let n = unique.len();
        notes.replaced(
            "tags",
            format!("are {n}; the first {MAX_TAGS} in alphabetical order are stored"),
        );
    }
    unique.into_iter().take(MAX_TAGS).collect()
}

/// LiveKit spans for bookkeeping.
const LIVEKIT_BOOKKEEPING: [&str; 14] = [
    "user_speaking",
    "eou_detection",
    "llm_request_run",
    "tts_node",
    "tts_request",
    "tts_request_run",
    "tts_stream_adapter",
    "agent_speaking",
    "drain_agent_activity",
    "on_enter",
    "on_exit",
    "llm_fallback_adapter",
    "tts_fallback_adapter",
    "start_agent_activity",
];

pub(crate) fn level(source: &Source<'_>, notes: &mut Notes) -> Level {
    let attributes = source.attributes;
    if let Some(text) = attributes.native_text("observation.level") {
        match text.trim().to_ascii_uppercase().as_str() {
            "DEBUG" | "TRACE" | "VERBOSE" => return Level::Debug,
            "DEFAULT" | "INFO" | "LOG" | "NOTICE" | "OK" | "SUCCESS" => return Level::Default,
            "WARNING" | "WARN" => return Level::Warning,
            "ERROR" | "FATAL" | "CRITICAL" => return Level::Error,
            "" => {}
            _ => notes.ignored("level", text, "DEBUG, DEFAULT, WARNING or ERROR"),
        }
    }
    if source.span.status_code == 2 {
        return Level::Error;
    }
    if let Some(number) = attributes.get("logfire.level_num").and_then(crate::attributes::amount) {
        return match number {
            n if n >= 17.0 => Level::Error,
            n if n >= 13.0 => Level::Warning,
            n if n < 9.0 => Level::Debug,
            _ => Level::Default,
        };
    }
    let is_bookkeeping = source.scope.name == "livekit-agents"
        && LIVEKIT_BOOKKEEPING.contains(&source.span.name.as_ref());
    if is_bookkeeping { Level::Debug } else { Level::Default }
}

pub(crate) fn status_message(source: &Source<'_>, level: Level) -> Option<String> {
    let attributes = source.attributes;
    let message = source.span.status_message.as_ref();
    let sent = attributes
        .native("observation.status_message")
        .and_then(plain_text)
        .or_else(|| (!message.is_empty()).then(|| message.to_owned()));
    if sent.is_some() || level != Level::Error {
        return sent;
    }
    let exception = || {
        let event = source.span.events.iter().rfind(|event| event.name == "exception")?;
        let part = |name: &str| {
            let found = event.attributes.pairs.iter().rfind(|(key, _)| key == name)?;
            found.1.as_str().filter(|text| !text.is_empty())
        };
        match (part("exception.type"), part("exception.message")) {
            (Some(kind), Some(message)) => Some(format!("{kind}: {message}")),
            (one, other) => one.or(other).map(str::to_owned),
        }
    };
    let errors = ["error.message", "error.type"];
    exception().or_else(|| attributes.first(&errors).and_then(plain_text))
}

/// Lower case, without the prefix reserved for the server's own traces.
pub(crate) fn environment(source: &Source<'_>, notes: &mut Notes) -> String {
    let (span, resource) = (source.attributes, source.resource);
    let sent = span
        .native("environment")
        .or_else(|| resource.native("environment"))
        .or_else(|| span.get("deployment.environment.name"))
        .or_else(|| resource.get("deployment.environment.name"))
        .or_else(|| span.get("deployment.environment"))
        .or_else(|| resource.get("deployment.environment"))
        .and_then(Value::as_str);
    let keeps_prefix = source.context.is_own_telemetry;
    normalized_environment(sent.unwrap_or_default(), keeps_prefix, notes)
}

/// Longest name of an environment in characters.
const MAX_ENVIRONMENT_CHARS: usize = 40;

pub(crate) fn normalized_environment(sent: &str, keeps_prefix: bool, notes: &mut Notes) -> String {
    let lower = sent.trim().to_lowercase();
    let mut name = lower.as_str();
    if !keeps_prefix {
        while let Some(rest) =
            name.strip_prefix("langfuse").or_else(|| name.strip_prefix("perpend"))
        {
            name = rest.trim_start_matches(['-', '_']);
        }
    }
    let is_valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
    if name.is_empty() {
        return "default".to_owned();
    }
    let mut name = name.to_owned();
    if !name.bytes().all(is_valid) {
        let shown = crate::limits::cut_chars(sent, MAX_ENVIRONMENT_CHARS);
        let explanation =
            format!("may have letters, digits, - and _, got {shown}; default is stored");
        notes.replaced("environment", explanation);
        return "default".to_owned();
    }
    notes.limit_chars("environment", &mut name, MAX_ENVIRONMENT_CHARS);
    name
}

pub(crate) fn release(source: &Source<'_>) -> Option<String> {
    source
        .attributes
        .native("release")
        .or_else(|| source.resource.native("release"))
        .and_then(plain_text)
}

pub(crate) fn version(source: &Source<'_>) -> Option<String> {
    source
        .attributes
        .native("version")
        .or_else(|| source.resource.native("version"))
        .or_else(|| source.resource.get("service.version"))
        .and_then(plain_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_normalised_and_the_reserved_prefix_goes() {
        let name = |sent: &str| normalized_environment(sent, false, &mut Notes::default());
        assert_eq!(name("Staging"), "staging");
        assert_eq!(name("langfuse-llm-as-a-judge"), "llm-as-a-judge");
        assert_eq!(name("langfuse_perpend-x"), "x");
        assert_eq!(name("langfuse"), "default");
        assert_eq!(name("pro duction"), "default");
        assert_eq!(name(&"a".repeat(60)).len(), 40);
        assert_eq!(
            normalized_environment("perpend-eval", true, &mut Notes::default()),
            "perpend-eval"
        );
    }
}
