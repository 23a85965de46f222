//! Validation of labels, and the error of an invalid prompt.

/// The longest label in characters.
pub const MAX_LABEL_CHARS: usize = 36;

/// A human-readable problem of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPrompt(pub String);

pub(super) fn invalid<T>(message: impl Into<String>) -> Result<T, InvalidPrompt> {
    Err(InvalidPrompt(message.into()))
}

/// Checks a label.
///
/// # Errors
/// [`InvalidPrompt`] if it is not a valid label.
pub fn check_label(raw: &str) -> Result<(), InvalidPrompt> {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.".contains(&byte);
    if (1..=MAX_LABEL_CHARS).contains(&raw.len()) && raw.bytes().all(fits) {
        return Ok(());
    }
    invalid(format!(
        "a label must have 1 to {MAX_LABEL_CHARS} of the characters a-z, 0-9, _, - and ., got {raw:?}"
    ))
}
