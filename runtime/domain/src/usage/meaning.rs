//! The meaning of usage counts.

/// One of the two sides of a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Tokens read by the model.
    Input,
    /// Tokens written by the model.
    Output,
}

/// The meaning of a count.
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
    Additional,
    /// Emitters differ.
    Varies,
}
