//! Names of usage counts: what each spelling means, and whether its side's count includes it.
//!
//! [`SPELLINGS`] lists the names that providers and instrumentation libraries use, with the package in which each was
//! found. [`DETAILS`] lists the names of parts, which occur inside a `*_details` object (`prompt_tokens_details`,
//! `input_token_details`, …) and after a side (`input_cached_tokens`, `output_reasoning`). Case, underscores, dots and
//! the endings `tokens` and `count` do not matter: see [`word`].

use std::collections::HashMap;
use std::sync::LazyLock;

/// One of the two sides of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// What the model reads.
    Input,
    /// What the model writes.
    Output,
}

/// What a count counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Meaning {
    /// The input, with or without its parts.
    Input,
    /// The output, with or without its parts.
    Output,
    /// Input and output together.
    Total,
    /// Input that was neither read from a cache nor written to one.
    Uncached,
    /// Input read from a cache.
    Cached,
    /// Input written to a cache, whatever its lifetime.
    CacheWrite,
    /// Input written to a cache for five minutes.
    CacheWrite5m,
    /// Input written to a cache for an hour.
    CacheWrite1h,
    /// Text input.
    InputText,
    /// Audio input.
    InputAudio,
    /// Image input.
    InputImage,
    /// Video input.
    InputVideo,
    /// Document input.
    InputDocument,
    /// Results of tools that the provider ran, read as input.
    InputTool,
    /// The part of the cached input that is text.
    CachedText,
    /// The part of the cached input that is audio.
    CachedAudio,
    /// The part of the cached input that is images.
    CachedImage,
    /// The part of the cached input that is video.
    CachedVideo,
    /// The part of the cached input that is documents.
    CachedDocument,
    /// Text output.
    OutputText,
    /// Reasoning.
    Reasoning,
    /// Audio output.
    OutputAudio,
    /// Image output.
    OutputImage,
    /// Video output.
    OutputVideo,
    /// Tokens of a predicted output that appeared in the output.
    AcceptedPrediction,
    /// Tokens of a predicted output that did not appear in the output; they are billed.
    RejectedPrediction,
}

impl Meaning {
    /// The canonical bucket.
    #[must_use]
    pub const fn bucket(self) -> &'static str {
        match self {
            Self::Input | Self::Uncached => "input",
            Self::Output => "output",
            Self::Total => "total",
            Self::Cached => "input_cached_tokens",
            Self::CacheWrite | Self::CacheWrite5m => "input_cache_creation",
            Self::CacheWrite1h => "input_cache_creation_1h",
            Self::InputText => "input_text_tokens",
            Self::InputAudio => "input_audio_tokens",
            Self::InputImage => "input_image_tokens",
            Self::InputVideo => "input_video_tokens",
            Self::InputDocument => "input_document_tokens",
            Self::InputTool => "input_tool_use_tokens",
            Self::CachedText => "cached_text_tokens",
            Self::CachedAudio => "cached_audio_tokens",
            Self::CachedImage => "cached_image_tokens",
            Self::CachedVideo => "cached_video_tokens",
            Self::CachedDocument => "cached_document_tokens",
            Self::OutputText => "output_text_tokens",
            Self::Reasoning => "output_reasoning_tokens",
            Self::OutputAudio => "output_audio_tokens",
            Self::OutputImage => "output_image_tokens",
            Self::OutputVideo => "output_video_tokens",
            Self::AcceptedPrediction => "output_accepted_prediction_tokens",
            Self::RejectedPrediction => "output_rejected_prediction_tokens",
        }
    }

    /// The side that it counts, or of which it is a part. A modality of the cached input repeats [`Self::Cached`] and
    /// has none.
    #[must_use]
    pub const fn side(self) -> Option<Side> {
        match self {
            Self::Total
            | Self::CachedText
            | Self::CachedAudio
            | Self::CachedImage
            | Self::CachedVideo
            | Self::CachedDocument => None,
            Self::Output
            | Self::OutputText
            | Self::Reasoning
            | Self::OutputAudio
            | Self::OutputImage
            | Self::OutputVideo
            | Self::AcceptedPrediction
            | Self::RejectedPrediction => Some(Side::Output),
            _ => Some(Side::Input),
        }
    }
}

/// Whether the count of a side includes a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The side includes the part.
    Inside,
    /// The side is counted without the part.
    Beside,
    /// Emitters differ.
    Varies,
}

use Meaning::*;
use Relation::{Beside, Inside, Varies};

/// Meaning, relation, name, and packages in which it was found. A relation of a side's own name is about its parts.
/// Of two names for one count the earlier counts.
pub const SPELLINGS: &[(Meaning, Relation, &str, &str)] = &[
    // Sides.
    (
        Input,
        Varies,
        "input_tokens",
        "anthropic 2.14.0; openai 3.57.0 responses; opentelemetry-semantic-conventions 0.66b2; langchain-core 1.8.4; mlflow-skinny 3.17.2",
    ),
    (
        Input,
        Varies,
        "inputTokens",
        "strands-agents 1.62.0 (Bedrock Converse); ai 5.0.277, 6.0.326; genkit 1.42.0",
    ),
    (
        Input,
        Inside,
        "prompt_tokens",
        "openai 3.57.0 chat; groq 1.7.0; mistralai 3.7.0; xai-sdk 1.21.0; litellm 1.110.2; agentops 0.4.21",
    ),
    (
        Input,
        Inside,
        "promptTokens",
        "@traceloop/instrumentation-openai 0.27.0; ai 4",
    ),
    (
        Input,
        Inside,
        "prompt",
        "openinference-semantic-conventions 0.1.42 llm.token_count.prompt",
    ),
    (Input, Inside, "prompt_token_count", "google-genai 3.6.1"),
    (
        Input,
        Varies,
        "input_token_count",
        "agent-framework-core 1.23.0",
    ),
    (
        Input,
        Varies,
        "inputTokenCount",
        "langchain-aws 1.9.1 (Bedrock InvokeModel metrics)",
    ),
    (Input, Inside, "prompt_eval_count", "ollama 0.6.3"),
    (Input, Inside, "tokens.input_tokens", "cohere 7.3.1"),
    (Input, Inside, "billed_units.input_tokens", "cohere 7.3.1"),
    (
        Input,
        Inside,
        "total_input_tokens",
        "google-genai 3.6.1 interactions",
    ),
    (
        Output,
        Varies,
        "output_tokens",
        "anthropic 2.14.0; openai 3.57.0 responses; opentelemetry-semantic-conventions 0.66b2; langchain-core 1.8.4",
    ),
    (
        Output,
        Varies,
        "outputTokens",
        "strands-agents 1.62.0 (Bedrock Converse); ai 5.0.277, 6.0.326; genkit 1.42.0",
    ),
    (
        Output,
        Inside,
        "completion_tokens",
        "openai 3.57.0 chat; groq 1.7.0; mistralai 3.7.0; xai-sdk 1.21.0; litellm 1.110.2",
    ),
    (
        Output,
        Inside,
        "completionTokens",
        "@traceloop/instrumentation-openai 0.27.0; ai 4",
    ),
    (
        Output,
        Inside,
        "completion",
        "openinference-semantic-conventions 0.1.42 llm.token_count.completion",
    ),
    (
        Output,
        Beside,
        "candidates_token_count",
        "google-genai 3.6.1",
    ),
    (
        Output,
        Beside,
        "response_token_count",
        "google-genai 3.6.1 live",
    ),
    (
        Output,
        Varies,
        "output_token_count",
        "agent-framework-core 1.23.0",
    ),
    (
        Output,
        Varies,
        "outputTokenCount",
        "langchain-aws 1.9.1 (Bedrock InvokeModel metrics)",
    ),
    (
        Output,
        Varies,
        "generated_token_count",
        "langfuse 5.0.4 (watsonx)",
    ),
    (Output, Inside, "eval_count", "ollama 0.6.3"),
    (Output, Inside, "tokens.output_tokens", "cohere 7.3.1"),
    (Output, Inside, "billed_units.output_tokens", "cohere 7.3.1"),
    (
        Output,
        Beside,
        "total_output_tokens",
        "google-genai 3.6.1 interactions",
    ),
    // An embedding of the AI SDK has no other count.
    (
        Input,
        Inside,
        "tokens",
        "ai 5.0.277, 6.0.326 ai.usage.tokens",
    ),
    (
        Total,
        Varies,
        "total_tokens",
        "openai 3.57.0; langchain-core 1.8.4; ai 5.0.277; openinference llm.token_count.total",
    ),
    (
        Total,
        Varies,
        "total_token_count",
        "google-genai 3.6.1; agent-framework-core 1.23.0",
    ),
    // Read from a cache.
    (
        Cached,
        Beside,
        "cache_read_input_tokens",
        "anthropic 2.14.0; strands-agents 1.62.0; litellm 1.110.2; openlit 1.45.0; mlflow-skinny 3.17.2; semantic conventions cache_read.input_tokens",
    ),
    (
        Cached,
        Beside,
        "cacheReadInputTokens",
        "langchain-aws 1.9.1 (Bedrock Converse)",
    ),
    (
        Cached,
        Beside,
        "cacheReadInputTokenCount",
        "openinference-instrumentation-bedrock 0.1.61 (InvokeModel metrics)",
    ),
    (
        Cached,
        Varies,
        "cache_read_input_token_count",
        "agent-framework-core 1.23.0",
    ),
    (
        Cached,
        Varies,
        "cache_read_tokens",
        "pydantic-ai-slim 2.68.0; genai-prices 0.2.3",
    ),
    (Cached, Varies, "cacheReadTokens", "ai 6.0.326"),
    (Cached, Varies, "cache_read", "langchain-core 1.8.4"),
    (
        Cached,
        Inside,
        "cached_tokens",
        "cohere 7.3.1; openai 3.57.0",
    ),
    (
        Cached,
        Varies,
        "cached_input_tokens",
        "@mastra/otel-exporter 0.3.3; ai 5.0.277 cachedInputTokens",
    ),
    (
        Cached,
        Inside,
        "cached_prompt_tokens",
        "ai 4 openai.cachedPromptTokens",
    ),
    (
        Cached,
        Inside,
        "cached_prompt_text_tokens",
        "xai-sdk 1.21.0",
    ),
    (
        Cached,
        Inside,
        "cached_content_token_count",
        "google-genai 3.6.1",
    ),
    (Cached, Inside, "cachedContentTokens", "genkit 1.42.0"),
    (
        Cached,
        Inside,
        "prompt_cache_hit_tokens",
        "litellm 1.110.2 (DeepSeek)",
    ),
    (Cached, Inside, "cache_hit_tokens", "litellm 1.110.2"),
    (
        Cached,
        Inside,
        "total_cached_tokens",
        "google-genai 3.6.1 interactions",
    ),
    (Cached, Inside, "input_tokens.cached", "sentry-sdk 2.75.0"),
    // Written to a cache.
    (
        CacheWrite,
        Beside,
        "cache_creation_input_tokens",
        "anthropic 2.14.0; litellm 1.110.2; openlit 1.45.0; semantic conventions cache_creation.input_tokens",
    ),
    (
        CacheWrite,
        Beside,
        "cacheCreationInputTokens",
        "@ai-sdk/anthropic 2.0.112 provider metadata",
    ),
    (
        CacheWrite,
        Beside,
        "cache_write_input_tokens",
        "strands-agents 1.62.0; sentry-sdk 2.75.0 cache_write.input_tokens",
    ),
    (
        CacheWrite,
        Beside,
        "cacheWriteInputTokens",
        "langchain-aws 1.9.1 (Bedrock Converse)",
    ),
    (
        CacheWrite,
        Beside,
        "cacheWriteInputTokenCount",
        "openinference-instrumentation-bedrock 0.1.61 (InvokeModel metrics)",
    ),
    (
        CacheWrite,
        Varies,
        "cache_creation_input_token_count",
        "agent-framework-core 1.23.0",
    ),
    (
        CacheWrite,
        Varies,
        "cache_write_tokens",
        "pydantic-ai-slim 2.68.0; genai-prices 0.2.3",
    ),
    (CacheWrite, Varies, "cacheWriteTokens", "ai 6.0.326"),
    (
        CacheWrite,
        Varies,
        "cache_write",
        "openinference-semantic-conventions 0.1.42",
    ),
    (
        CacheWrite,
        Varies,
        "cache_creation_tokens",
        "openlit 1.45.0; litellm 1.110.2",
    ),
    (CacheWrite, Varies, "cache_creation", "langchain-core 1.8.4"),
    (
        CacheWrite,
        Inside,
        "prompt_cache_creation_tokens",
        "litellm 1.110.2",
    ),
    (
        CacheWrite,
        Inside,
        "input_tokens.cache_write",
        "sentry-sdk 2.75.0",
    ),
    (
        CacheWrite5m,
        Varies,
        "cache_creation.ephemeral_5m_input_tokens",
        "anthropic 2.14.0; langfuse 5.0.4 flat",
    ),
    (
        CacheWrite5m,
        Varies,
        "ephemeral_5m_input_tokens",
        "langchain-anthropic 1.7.10",
    ),
    (
        CacheWrite5m,
        Varies,
        "cache_creation.input_tokens.ephemeral_5m",
        "logfire 5.4.0",
    ),
    (CacheWrite5m, Varies, "cache_creation_5m", "litellm 1.110.2"),
    (
        CacheWrite5m,
        Varies,
        "cache_write_5m_tokens",
        "genai-prices 0.2.3",
    ),
    (
        CacheWrite5m,
        Varies,
        "cacheDetails.5m",
        "@ai-sdk/amazon-bedrock 4.0.186 (Bedrock Converse)",
    ),
    (
        CacheWrite1h,
        Varies,
        "cache_creation.ephemeral_1h_input_tokens",
        "anthropic 2.14.0; langfuse 5.0.4 flat",
    ),
    (
        CacheWrite1h,
        Varies,
        "ephemeral_1h_input_tokens",
        "langchain-anthropic 1.7.10",
    ),
    (
        CacheWrite1h,
        Varies,
        "cache_creation.input_tokens.ephemeral_1h",
        "logfire 5.4.0",
    ),
    (
        CacheWrite1h,
        Varies,
        "cache_creation_input_tokens_above_1hr",
        "mlflow-skinny 3.17.2",
    ),
    (CacheWrite1h, Varies, "cache_creation_1h", "litellm 1.110.2"),
    (
        CacheWrite1h,
        Varies,
        "cache_write_1h_tokens",
        "pydantic-ai-slim 2.68.0",
    ),
    (
        CacheWrite1h,
        Varies,
        "cacheDetails.1h",
        "@ai-sdk/amazon-bedrock 4.0.186 (Bedrock Converse)",
    ),
    (Uncached, Inside, "noCacheTokens", "ai 6.0.326"),
    (Uncached, Inside, "uncached_input_tokens", "litellm 1.110.2"),
    (
        Uncached,
        Inside,
        "prompt_cache_miss_tokens",
        "litellm 1.110.2 (DeepSeek)",
    ),
    // Modalities whose names carry the side.
    (InputText, Inside, "prompt_text_tokens", "xai-sdk 1.21.0"),
    (InputImage, Inside, "prompt_image_tokens", "xai-sdk 1.21.0"),
    (
        InputAudio,
        Inside,
        "audio_input_tokens",
        "opentelemetry-semantic-conventions 0.66b2 audio.input_tokens",
    ),
    (
        InputImage,
        Inside,
        "image_input_tokens",
        "opentelemetry-semantic-conventions 0.66b2 image.input_tokens",
    ),
    (
        InputVideo,
        Inside,
        "video_input_tokens",
        "opentelemetry-semantic-conventions 0.66b2 video.input_tokens",
    ),
    (
        InputTool,
        Beside,
        "tool_use_prompt_token_count",
        "google-genai 3.6.1",
    ),
    (
        InputTool,
        Beside,
        "total_tool_use_tokens",
        "google-genai 3.6.1 interactions",
    ),
    (
        CachedAudio,
        Inside,
        "cache_audio_read_tokens",
        "pydantic-ai-slim 2.68.0",
    ),
    (
        CachedAudio,
        Inside,
        "cached_audio_tokens",
        "litellm 1.110.2",
    ),
    (
        CachedImage,
        Inside,
        "cache_image_read_tokens",
        "genai-prices 0.2.3",
    ),
    (
        CachedImage,
        Inside,
        "cached_image_tokens",
        "litellm 1.110.2",
    ),
    (
        CachedText,
        Inside,
        "cache_text_read_tokens",
        "genai-prices 0.2.3",
    ),
    (CachedText, Inside, "cached_text_tokens", "litellm 1.110.2"),
    // Parts of the output.
    (
        Reasoning,
        Varies,
        "reasoning_tokens",
        "traceloop-sdk 0.62.4; xai-sdk 1.21.0; @mastra/otel-exporter 0.3.3; ai 5.0.277",
    ),
    (
        Reasoning,
        Varies,
        "reasoning_output_tokens",
        "sentry-sdk 2.75.0 reasoning.output_tokens; google-adk 2.13.0",
    ),
    (
        Reasoning,
        Varies,
        "reasoning_output_token_count",
        "agent-framework-core 1.23.0",
    ),
    (
        Reasoning,
        Inside,
        "output_tokens.reasoning",
        "sentry-sdk 2.75.0",
    ),
    (
        Reasoning,
        Beside,
        "thoughts_token_count",
        "google-genai 3.6.1; genkit 1.42.0 thoughtsTokens",
    ),
    (
        Reasoning,
        Beside,
        "total_thought_tokens",
        "google-genai 3.6.1 interactions",
    ),
    (
        OutputAudio,
        Inside,
        "audio_output_tokens",
        "opentelemetry-semantic-conventions 0.66b2 audio.output_tokens",
    ),
    (
        OutputImage,
        Inside,
        "image_output_tokens",
        "opentelemetry-semantic-conventions 0.66b2 image.output_tokens",
    ),
    (
        AcceptedPrediction,
        Inside,
        "accepted_prediction_tokens",
        "@ai-sdk/openai 3.0.141 provider metadata",
    ),
    (
        RejectedPrediction,
        Inside,
        "rejected_prediction_tokens",
        "@ai-sdk/openai 3.0.141 provider metadata",
    ),
];

/// Objects that hold the parts of a side, and what stands before the name of a part in a flat bucket.
pub const CONTAINERS: &[(Side, &str, &str)] = &[
    (
        Side::Input,
        "prompt_tokens_details",
        "openai 3.57.0 chat; google-genai 3.6.1; groq 1.7.0; openlit 1.45.0",
    ),
    (Side::Input, "prompt_token_details", "litellm 1.110.2"),
    (
        Side::Input,
        "prompt_details",
        "openinference-semantic-conventions 0.1.42",
    ),
    (
        Side::Input,
        "input_tokens_details",
        "openai 3.57.0 responses",
    ),
    (
        Side::Input,
        "input_token_details",
        "langchain-core 1.8.4; langsmith 0.15.1; ai 6.0.326; openai 3.57.0 realtime",
    ),
    (Side::Input, "input_details", "langfuse 5.0.4"),
    (
        Side::Input,
        "input_tokens_by_modality",
        "google-genai 3.6.1 interactions",
    ),
    (
        Side::Output,
        "completion_tokens_details",
        "openai 3.57.0 chat; groq 1.7.0; openlit 1.45.0",
    ),
    (Side::Output, "completion_token_details", "litellm 1.110.2"),
    (
        Side::Output,
        "completion_details",
        "openinference-semantic-conventions 0.1.42",
    ),
    (
        Side::Output,
        "candidates_tokens_details",
        "google-genai 3.6.1",
    ),
    (
        Side::Output,
        "response_tokens_details",
        "google-genai 3.6.1 live",
    ),
    (
        Side::Output,
        "output_tokens_details",
        "openai 3.57.0 responses; anthropic 2.14.0",
    ),
    (
        Side::Output,
        "output_token_details",
        "langchain-core 1.8.4; langsmith 0.15.1; ai 6.0.326",
    ),
    (Side::Output, "output_details", "langfuse 5.0.4"),
    (
        Side::Output,
        "output_tokens_by_modality",
        "google-genai 3.6.1 interactions",
    ),
];

/// Objects that hold the modalities of the cached input.
const CACHED_CONTAINERS: &[&str] = &[
    "cache_tokens_details",
    "cached_tokens_details",
    "cached_tokens_by_modality",
];

/// Parts of a side by their names.
pub const DETAILS: &[(Meaning, &[&str])] = &[
    (
        Cached,
        &[
            "cached_tokens",
            "cached_input_tokens",
            "cache_read",
            "cache_read_tokens",
            "cache_read_input_tokens",
            "cache_input",
            "cache_hit_tokens",
            "cached_content_tokens",
        ],
    ),
    (
        CacheWrite,
        &[
            "cache_creation",
            "cache_creation_tokens",
            "cache_creation_input_tokens",
            "cache_write",
            "cache_write_tokens",
            "cache_write_input_tokens",
        ],
    ),
    (
        CacheWrite5m,
        &[
            "ephemeral_5m_input_tokens",
            "cache_creation_5m",
            "cache_write_5m_tokens",
            "cache_creation_token_details.ephemeral_5m_input_tokens",
            "cache_creation.ephemeral_5m_input_tokens",
        ],
    ),
    (
        CacheWrite1h,
        &[
            "ephemeral_1h_input_tokens",
            "cache_creation_1h",
            "cache_write_1h_tokens",
            "cache_creation_token_details.ephemeral_1h_input_tokens",
            "cache_creation.ephemeral_1h_input_tokens",
        ],
    ),
    (Uncached, &["no_cache_tokens", "uncached_tokens"]),
    (InputText, &["text", "text_tokens", "modality_text"]),
    (InputAudio, &["audio", "audio_tokens", "modality_audio"]),
    (InputImage, &["image", "image_tokens", "modality_image"]),
    (InputVideo, &["video", "video_tokens", "modality_video"]),
    (
        InputDocument,
        &["document", "document_tokens", "modality_document"],
    ),
    (InputTool, &["tool_use_tokens"]),
    (CachedText, &["cached_tokens_details.text_tokens"]),
    (
        CachedAudio,
        &[
            "cached_tokens_details.audio_tokens",
            "cache_audio_read_tokens",
            "cached_audio_tokens",
        ],
    ),
    (
        CachedImage,
        &[
            "cached_tokens_details.image_tokens",
            "cache_image_read_tokens",
            "cached_image_tokens",
        ],
    ),
    (OutputText, &["text", "text_tokens", "modality_text"]),
    (
        Reasoning,
        &[
            "reasoning",
            "reasoning_tokens",
            "thinking_tokens",
            "thoughts_tokens",
        ],
    ),
    (OutputAudio, &["audio", "audio_tokens", "modality_audio"]),
    (OutputImage, &["image", "image_tokens", "modality_image"]),
    (OutputVideo, &["video", "video_tokens", "modality_video"]),
    (AcceptedPrediction, &["accepted_prediction_tokens"]),
    (RejectedPrediction, &["rejected_prediction_tokens"]),
];

/// A name as the tables compare it: letters and digits in lower case, without the endings `count` and `tokens`.
fn word(name: &str) -> String {
    let letters = name.bytes().filter(u8::is_ascii_alphanumeric);
    let mut word: String = letters
        .map(|byte| char::from(byte.to_ascii_lowercase()))
        .collect();
    for ending in ["count", "tokens", "token"] {
        let bare = word.strip_suffix(ending).filter(|bare| !bare.is_empty());
        if let Some(length) = bare.map(str::len) {
            word.truncate(length);
        }
    }
    word
}

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// What it counts.
    pub meaning: Meaning,
    /// Whether its side includes it.
    pub relation: Relation,
    /// Of several names for one count, the one with the lowest rank counts.
    pub rank: usize,
    /// Whether it is inside a `*_details` object.
    pub is_in_details: bool,
}

struct Table {
    names: HashMap<String, (Meaning, Relation, usize)>,
    containers: HashMap<String, Side>,
    details: HashMap<(Side, String), (Meaning, usize)>,
    cached: Vec<String>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut names = HashMap::new();
    for (rank, (meaning, relation, name, _)) in SPELLINGS.iter().enumerate() {
        names
            .entry(word(name))
            .or_insert((*meaning, *relation, rank));
    }
    let containers = CONTAINERS.iter();
    let containers = containers
        .map(|(side, name, _)| (word(name), *side))
        .collect();
    let mut details = HashMap::new();
    let listed = DETAILS
        .iter()
        .flat_map(|(meaning, names)| names.iter().map(|name| (*meaning, *name)));
    for (rank, (meaning, name)) in listed.enumerate() {
        // A modality of the cached input is listed under the input.
        let side = meaning.side().unwrap_or(Side::Input);
        details
            .entry((side, word(name)))
            .or_insert((meaning, SPELLINGS.len() + rank));
    }
    Table {
        names,
        containers,
        details,
        cached: CACHED_CONTAINERS.iter().map(|name| word(name)).collect(),
    }
});

/// What a name means; a dot separates the name of an object from that of its member. `None` for an unknown name.
#[must_use]
pub fn meaning(name: &str) -> Option<Named> {
    let table = &*TABLE;
    if let Some((meaning, relation, rank)) = table.names.get(&word(name)) {
        return Some(Named {
            meaning: *meaning,
            relation: *relation,
            rank: *rank,
            is_in_details: false,
        });
    }
    let detail = |side: Side, part: &str, is_in_details: bool| {
        let (meaning, rank) = table.details.get(&(side, word(part)))?;
        Some(Named {
            meaning: *meaning,
            relation: Inside,
            rank: *rank,
            is_in_details,
        })
    };
    if let Some((object, part)) = name.split_once('.') {
        let object = word(object);
        if let Some(side) = table.containers.get(&object) {
            return detail(*side, part, true);
        }
        return match table.cached.contains(&object) {
            true => cached_modality(part, true),
            false => None,
        };
    }
    let flat = [
        (Side::Input, "input"),
        (Side::Output, "output"),
        (Side::Input, "prompt"),
        (Side::Output, "completion"),
    ];
    let after = |prefix: &str| {
        let (head, part) = name.split_at_checked(prefix.len())?;
        (head.eq_ignore_ascii_case(prefix) && !part.is_empty()).then_some(part)
    };
    let found = flat
        .iter()
        .find_map(|(side, prefix)| detail(*side, after(prefix)?, false));
    found.or_else(|| cached_modality(after("cached_")?, false))
}

fn cached_modality(part: &str, is_in_details: bool) -> Option<Named> {
    let (input, rank) = TABLE.details.get(&(Side::Input, word(part)))?;
    let meaning = match input {
        InputText => CachedText,
        InputAudio => CachedAudio,
        InputImage => CachedImage,
        InputVideo => CachedVideo,
        InputDocument => CachedDocument,
        _ => return None,
    };
    Some(Named {
        meaning,
        relation: Inside,
        rank: *rank,
        is_in_details,
    })
}

/// The canonical name of a bucket that goes by several.
#[must_use]
pub fn canonical_bucket(bucket: &str) -> &str {
    meaning(bucket).map_or(bucket, |named| named.meaning.bucket())
}

/// The side that a bucket belongs to. A bucket of unknown meaning belongs to one if its name begins with `input` or
/// `output` and ends with `tokens`.
#[must_use]
pub fn side_of(bucket: &str) -> Option<Side> {
    if let Some(named) = meaning(bucket) {
        return named.meaning.side();
    }
    let counts_tokens = bucket.ends_with("tokens") && !bucket.contains('.');
    let sides = [("input", Side::Input), ("output", Side::Output)];
    let side = sides.into_iter().find(|(name, _)| bucket.starts_with(name));
    side.filter(|_| counts_tokens).map(|(_, side)| side)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_has_one_meaning() {
        let mut known: HashMap<String, Meaning> = HashMap::new();
        for (meaning, _, name, source) in SPELLINGS {
            assert!(!source.is_empty(), "{name} has no source");
            let other = known.insert(word(name), *meaning);
            assert!(
                other.is_none_or(|other| other == *meaning),
                "{name} has two meanings"
            );
            assert_eq!(super::meaning(name).unwrap().meaning, *meaning, "{name}");
        }
        for (side, container, _) in CONTAINERS {
            for (meaning, names) in DETAILS
                .iter()
                .filter(|(m, _)| m.side().unwrap_or(Side::Input) == *side)
            {
                for name in *names {
                    let path = format!("{container}.{name}");
                    assert_eq!(super::meaning(&path).unwrap().meaning, *meaning, "{path}");
                }
            }
        }
    }

    #[test]
    fn a_canonical_bucket_means_itself() {
        for (meaning, ..) in SPELLINGS {
            assert_eq!(canonical_bucket(meaning.bucket()), meaning.bucket());
        }
    }

    #[test]
    fn names_of_other_things_have_no_meaning() {
        for name in [
            "cost",
            "seconds",
            "queue_time",
            "web_search_requests",
            "input_priority",
            "output_tokens_per_second",
            "compaction.input_tokens",
            "iterations",
            "",
            "x",
        ] {
            assert_eq!(meaning(name), None, "{name}");
            assert_eq!(side_of(name), None, "{name}");
        }
    }
}
