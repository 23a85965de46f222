//! What labels may be, and what is said of a prompt that is none.

/// The longest label in characters.
pub const MAX_LABEL_CHARS: usize = 36;

/// What is wrong with a part of a prompt, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPrompt(pub String);

pub(super) fn invalid<T>(message: impl Into<String>) -> Result<T, InvalidPrompt> {
    Err(InvalidPrompt(message.into()))
}

/// Checks a label.
///
/// # Errors
/// [`InvalidPrompt`] when it is no label.
pub fn check_label(raw: &str) -> Result<(), InvalidPrompt> {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.".contains(&byte);
    if (1..=MAX_LABEL_CHARS).contains(&raw.len()) && raw.bytes().all(fits) {
        return Ok(());
    }
    invalid(format!("{raw:?} is no label: 1 to {MAX_LABEL_CHARS} of a to z, 0 to 9, _, - and ."))
}
