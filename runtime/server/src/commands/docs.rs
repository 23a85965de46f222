//! `perpend docs`: the generated reference pages.

use std::io::Write as _;
use std::process::ExitCode;

use perpend_http_kit::{problem, routes};

/// A generated page.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Page {
    /// Routes and permissions
    Access,
    /// Settings
    Config,
    /// Error codes
    Errors,
    /// The OpenAPI document
    Openapi,
}

pub(super) fn print(page: Page) -> anyhow::Result<ExitCode> {
    let text = match page {
        Page::Access => routes::markdown(&crate::described()),
        Page::Config => perpend_config::markdown(),
        Page::Errors => problem::markdown(),
        Page::Openapi => serde_json::to_string_pretty(&crate::openapi())? + "\n",
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
