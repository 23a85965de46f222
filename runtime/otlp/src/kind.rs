//! The kind of observation of a span (otlp.md 2.5), by the first applicable rule.

use perpend_domain::join::EVALUATION_RESULT;
use perpend_domain::observation::ObservationKind as Kind;

use crate::attributes::any_text;
use crate::source::{Source, version};

/// Native attributes that only generations carry, as suffixes.
const GENERATION_ONLY: [&str; 7] = [
    "observation.model.name",
    "observation.model.parameters",
    "observation.usage_details",
    "observation.cost_details",
    "observation.prompt.name",
    "observation.prompt.version",
    "observation.completion_start_time",
];

pub(crate) fn kind(source: &Source<'_>) -> Kind {
    declared(source).or_else(|| library(source)).or_else(|| implied(source)).unwrap_or(Kind::Span)
}

/// Rules 1 to 4: explicit kinds.
fn declared(source: &Source<'_>) -> Option<Kind> {
    let attributes = source.attributes;
    let native = attributes
        .native_text("observation.type")
        .and_then(|name| name.trim().parse::<Kind>().ok());
    if native == Some(Kind::Span) && is_mislabelled(source) {
        return Some(Kind::Generation);
    }
    native
        .or_else(|| called_model_with_tools(source))
        .or_else(|| {
            match attributes.text("openinference.span.kind")?.to_ascii_uppercase().as_str() {
                "LLM" => Some(Kind::Generation),
                "EMBEDDING" => Some(Kind::Embedding),
                "CHAIN" => Some(Kind::Chain),
                "RETRIEVER" | "RERANKER" => Some(Kind::Retriever),
                "TOOL" => Some(Kind::Tool),
                "AGENT" => Some(Kind::Agent),
                "GUARDRAIL" => Some(Kind::Guardrail),
                "EVALUATOR" => Some(Kind::Evaluator),
                "PROMPT" => Some(Kind::Span),
                _ => None,
            }
        })
        .or_else(|| of_operation(source.operation?))
}

/// LiteLLM marks a model call that offers tools as a tool.
fn called_model_with_tools(source: &Source<'_>) -> Option<Kind> {
    let attributes = source.attributes;
    let marked = attributes.text("openinference.span.kind")?;
    if !marked.eq_ignore_ascii_case("TOOL") {
        return None;
    }
    match attributes.text("llm.request.type") {
        Some("chat" | "completion") => Some(Kind::Generation),
        Some("embedding") => Some(Kind::Embedding),
        _ => {
            let counts = ["llm.token_count.", "gen_ai.usage."];
            let has_counts = counts.iter().any(|prefix| attributes.has_prefix(prefix));
            (has_counts && has_model(source)).then_some(Kind::Generation)
        }
    }
}

/// Whether a model is named (rule 17).
fn has_model(source: &Source<'_>) -> bool {
    const KEYS: [&str; 5] = [
        "gen_ai.request.model",
        "gen_ai.response.model",
        "llm.model_name",
        "llm.response.model",
        "model",
    ];
    let attributes = source.attributes;
    attributes.native("observation.model.name").is_some() || attributes.first(&KEYS).is_some()
}

/// Python SDK versions up to 3.3 sent `span` for generations.
fn is_mislabelled(source: &Source<'_>) -> bool {
    let scope = source.scope;
    scope.name == "langfuse-sdk"
        && version(&scope.version).is_some_and(|version| version <= (3, 3))
        && source.resource.text("telemetry.sdk.language") == Some("python")
        && source.attributes.first_native(&GENERATION_ONLY).is_some()
}

fn of_operation(operation: &str) -> Option<Kind> {
    match operation {
        "completion" | "text_completion" | "generate_content" | "generate" | "llm_request"
        | "image" | "audio" => Some(Kind::Generation),
        "embeddings" | "embedding" => Some(Kind::Embedding),
        "invoke_agent" | "create_agent" => Some(Kind::Agent),
        "execute_tool" => Some(Kind::Tool),
        "invoke_workflow" | "agent_step" | "execute_task" | "plan" => Some(Kind::Chain),
        "retrieval" | "search_memory" | "vector_db_retrieve" | "rerank" => Some(Kind::Retriever),
        "evaluate" => Some(Kind::Evaluator),
        chat if chat.starts_with("chat") => Some(Kind::Generation),
        _ => None,
    }
}

/// Whether an AI SDK operation is a model call or tool call; the others wrap those.
pub(crate) fn ai_kind(operation: &str) -> Option<Kind> {
    match operation {
        "ai.generateText.doGenerate"
        | "ai.generateObject.doGenerate"
        | "ai.streamText.doStream"
        | "ai.streamObject.doStream" => Some(Kind::Generation),
        "ai.embed.doEmbed" | "ai.embedMany.doEmbed" => Some(Kind::Embedding),
        "ai.toolCall" => Some(Kind::Tool),
        _ => None,
    }
}

/// Rules 5 to 10: words of one library each.
fn library(source: &Source<'_>) -> Option<Kind> {
    let attributes = source.attributes;
    let genkit = attributes.text("genkit:metadata:subtype");
    genkit
        .and_then(|subtype| match subtype {
            "model" | "background-model" => Some(Kind::Generation),
            "embedder" => Some(Kind::Embedding),
            "tool" | "tool.v2" => Some(Kind::Tool),
            "retriever" | "reranker" => Some(Kind::Retriever),
            "evaluator" => Some(Kind::Evaluator),
            "flow" => Some(Kind::Chain),
            _ => None,
        })
        .or_else(|| Some(ai_kind(source.ai_operation?).unwrap_or(Kind::Span)))
        .or_else(|| of_mlflow(&any_text(attributes.get("mlflow.spanType")?)?))
        .or_else(|| match attributes.text("traceloop.span.kind")? {
            "workflow" | "task" => Some(Kind::Chain),
            "agent" => Some(Kind::Agent),
            "tool" => Some(Kind::Tool),
            _ => None,
        })
        .or_else(|| match attributes.text("llm.request.type")? {
            "chat" | "completion" => Some(Kind::Generation),
            "embedding" => Some(Kind::Embedding),
            "rerank" => Some(Kind::Retriever),
            _ => None,
        })
        .or_else(|| match attributes.text("langsmith.span.kind")? {
            "llm" => Some(Kind::Generation),
            "chain" => Some(Kind::Chain),
            "tool" => Some(Kind::Tool),
            "retriever" => Some(Kind::Retriever),
            "embedding" => Some(Kind::Embedding),
            _ => None,
        })
}

fn of_mlflow(span_type: &str) -> Option<Kind> {
    match span_type {
        "LLM" | "CHAT_MODEL" => Some(Kind::Generation),
        "EMBEDDING" => Some(Kind::Embedding),
        "RETRIEVER" | "RERANKER" => Some(Kind::Retriever),
        "TOOL" => Some(Kind::Tool),
        "AGENT" => Some(Kind::Agent),
        "CHAIN" | "WORKFLOW" | "TASK" => Some(Kind::Chain),
        "GUARDRAIL" => Some(Kind::Guardrail),
        "EVALUATOR" => Some(Kind::Evaluator),
        _ => None,
    }
}

/// Rules 11 to 17: attributes of a single kind.
fn implied(source: &Source<'_>) -> Option<Kind> {
    let attributes = source.attributes;
    let has = |keys: &[&str]| attributes.first(keys).is_some();
    let has_model = has_model(source);
    let is_mcp_call = attributes.text("mcp.method.name") == Some("tools/call");
    if has(&["gen_ai.tool.name", "gen_ai.tool.call.id"]) || is_mcp_call {
        return Some(Kind::Tool);
    }
    if has(&["gen_ai.retrieval.query.text", "gen_ai.retrieval.documents"]) {
        return Some(Kind::Retriever);
    }
    if attributes.has_prefix("flue.tool.") {
        return Some(Kind::Tool);
    }
    if attributes.has_prefix("flue.task.") {
        return Some(Kind::Agent);
    }
    if source.scope.name == "livekit-agents" {
        match source.span.name.as_ref() {
            "agent_turn" | "start_agent_activity" => return Some(Kind::Agent),
            "function_tool" => return Some(Kind::Tool),
            _ => {}
        }
    }
    let is_evaluated = source.span.events.iter().any(|e| e.name == EVALUATION_RESULT);
    if has(&["gen_ai.evaluation.name"]) || (is_evaluated && !has_model) {
        return Some(Kind::Evaluator);
    }
    if has(&["gen_ai.embeddings.dimension.count", "embedding.model_name"]) {
        return Some(Kind::Embedding);
    }
    has_model.then_some(Kind::Generation)
}
