//! Log output: standard error, as text on a terminal and as JSON otherwise.

use std::io::IsTerminal as _;

use perpend_config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;

pub(super) fn start(config: &Config) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.log_level)?;
    let is_terminal = std::io::stderr().is_terminal();
    let is_json = match config.log_format {
        LogFormat::Auto => !is_terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // A line that cannot be written, for example on a full disk, is lost. Reporting the error would write to the same file and
        // panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    if is_json {
        builder.json().flatten_event(true).init();
    } else {
        builder.with_ansi(is_terminal).with_target(false).init();
    }
    Ok(())
}
