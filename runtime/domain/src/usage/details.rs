//! Names of the parts of a side and of the objects that contain them.

use super::meaning::Meaning::{self, *};
use super::meaning::Side;

/// Objects with the parts of a side, and the prefix of a part in a flat bucket.
pub const CONTAINERS: &[(Side, &str, &str)] = &[
    (
        Side::Input,
        "prompt_tokens_details",
        "openai 3.57.0 chat; google-genai 3.6.1; groq 1.7.0; openlit 1.45.0",
    ),
    (Side::Input, "prompt_token_details", "litellm 1.110.2"),
    (Side::Input, "prompt_details", "openinference-semantic-conventions 0.1.42"),
    (Side::Input, "input_tokens_details", "openai 3.57.0 responses"),
    (
        Side::Input,
        "input_token_details",
        "langchain-core 1.8.4; langsmith 0.15.1; ai 6.0.326; openai 3.57.0 realtime",
    ),
    (Side::Input, "input_details", "langfuse 5.0.4"),
    (Side::Input, "input_tokens_by_modality", "google-genai 3.6.1 interactions"),
    (Side::Output, "completion_tokens_details", "openai 3.57.0 chat; groq 1.7.0; openlit 1.45.0"),
    (Side::Output, "completion_token_details", "litellm 1.110.2"),
    (Side::Output, "completion_details", "openinference-semantic-conventions 0.1.42"),
    (Side::Output, "candidates_tokens_details", "google-genai 3.6.1"),
    (Side::Output, "response_tokens_details", "google-genai 3.6.1 live"),
    (Side::Output, "output_tokens_details", "openai 3.57.0 responses; anthropic 2.14.0"),
    (Side::Output, "output_token_details", "langchain-core 1.8.4; langsmith 0.15.1; ai 6.0.326"),
    (Side::Output, "output_details", "langfuse 5.0.4"),
    (Side::Output, "output_tokens_by_modality", "google-genai 3.6.1 interactions"),
];

/// Objects with the modalities of the cached input.
pub const CACHED_CONTAINERS: &[&str] =
    &["cache_tokens_details", "cached_tokens_details", "cached_tokens_by_modality"];

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
    (InputDocument, &["document", "document_tokens", "modality_document"]),
    (InputTool, &["tool_use_tokens"]),
    (CachedText, &["cached_tokens_details.text_tokens"]),
    (
        CachedAudio,
        &["cached_tokens_details.audio_tokens", "cache_audio_read_tokens", "cached_audio_tokens"],
    ),
    (
        CachedImage,
        &["cached_tokens_details.image_tokens", "cache_image_read_tokens", "cached_image_tokens"],
    ),
    (OutputText, &["text", "text_tokens", "modality_text"]),
    (Reasoning, &["reasoning", "reasoning_tokens", "thinking_tokens", "thoughts_tokens"]),
    (OutputAudio, &["audio", "audio_tokens", "modality_audio"]),
    (OutputImage, &["image", "image_tokens", "modality_image"]),
    (OutputVideo, &["video", "video_tokens", "modality_video"]),
    (AcceptedPrediction, &["accepted_prediction_tokens"]),
    (RejectedPrediction, &["rejected_prediction_tokens"]),
];
