//! `perpend audit verify`: verifies the chains of the audit trail, with direct access to the database.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use perpend_catalog::audit::{AuditCheckpoint, ChainReport};
use perpend_config::SettingArgs;
use serde_json::{Value, json};

use super::common::{load, print_line, printable};
use super::{organization_key, serve};

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// Verify that no record was changed, deleted, added or reordered, and print a checkpoint of each chain
    Verify {
        /// Records that must still exist: the output of an earlier verification, an export in JSON lines, or a log
        /// of the server in JSON
        #[arg(long, value_name = "FILE")]
        checkpoints: Option<PathBuf>,
        #[command(flatten)]
        settings: SettingArgs,
    },
}

pub(super) fn audit(command: &AuditCommand) -> anyhow::Result<ExitCode> {
    let AuditCommand::Verify { checkpoints, settings } = command;
    let checkpoints = match checkpoints {
        Some(path) => read_checkpoints(path)?,
        None => Vec::new(),
    };
    let config = load(settings)?;
    serve::runtime()?.block_on(async {
        let store = organization_key::open(&config).await?;
        let verified = store.catalog.verify_audit(&checkpoints).await;
        store.close().await;
        let reports = verified?;
        for report in &reports {
            print_report(report);
        }
        if reports.is_empty() {
            print_line("The audit trail is empty.");
        }
        Ok(match reports.iter().all(|report| report.fault.is_none()) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    })
}

fn print_report(report: &ChainReport) {
    let organization = printable(&report.organization);
    if let Some(fault) = report.fault {
        print_line(&format!("organization {organization}: {fault}"));
        return;
    }
    let Some(head) = &report.head else {
        print_line(&format!("organization {organization}: no records"));
        return;
    };
    let (n, first, last) = (report.n_records, report.first, head.seq);
    print_line(&format!(
        "organization {organization}: {n} records, unbroken from {first} to {last}"
    ));
    let checkpoint = json!({
        "organization": head.organization,
        "seq": head.seq,
        "hash": head.hash.to_string(),
    });
    print_line(&checkpoint.to_string());
}

/// The checkpoints in a file. Lines without one are skipped: a log has other lines.
fn read_checkpoints(path: &Path) -> anyhow::Result<Vec<AuditCheckpoint>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let checkpoints: Vec<AuditCheckpoint> = text.lines().filter_map(parse).collect();
    anyhow::ensure!(
        !checkpoints.is_empty(),
        "{} has no line with `organization`, `seq` and `hash` in JSON",
        path.display()
    );
    Ok(checkpoints)
}

fn parse(line: &str) -> Option<AuditCheckpoint> {
    let value: Value = serde_json::from_str(line).ok()?;
    Some(AuditCheckpoint {
        organization: value["organization"].as_str()?.to_owned(),
        seq: value["seq"].as_i64()?,
        hash: value["hash"].as_str()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_a_line_of_an_export_or_of_a_verification() {
        let hash = "ab".repeat(32);
        let line = json!({ "seq": 3, "organization": "o", "operation": "x", "hash": hash });
        let read = parse(&line.to_string()).unwrap();
        assert_eq!((read.seq, read.hash.to_string()), (3, hash));
        assert_eq!(parse(r#"{"seq":3}"#), None);
    }
}
