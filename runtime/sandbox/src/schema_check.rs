//! Validation of values against untrusted schemas.
//!
//! Runs in a child process ([`check_main`]) with resource limits, because a small schema can cause unbounded use of CPU time,
//! memory and stack.

use std::io::{self, Write};
use std::panic::catch_unwind;
use std::process::ExitCode;

use perpend_json_schema::Schema;
use perpend_worker_protocol::check::{CHECK_CPU_SECONDS, CHECK_MEMORY_BYTES};
use perpend_worker_protocol::{
    self, CheckHead, Mismatch, SchemaAnswer, SchemaCheck, SchemaKind, ValueReport,
};
use rustix::process::Resource;
use serde_json::Value;

use crate::child::{self, limit, limit_cpu, read_frame};
use crate::config::check_config;
use crate::confine::{Role, confine};
use crate::mismatch::{MAX_LISTED, mismatch};

/// The command `perpend check`: reads a [`CheckHead`] from standard input, confines itself, reads a [`SchemaCheck`], and
/// writes a [`SchemaAnswer`] to standard output.
#[must_use]
pub fn check_main() -> ExitCode {
    child::main("perpend check", answer_request)
}

fn answer_request() -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let head: CheckHead = read_frame(&mut stdin)?;
    limit(Resource::As, CHECK_MEMORY_BYTES, CHECK_MEMORY_BYTES)?;
    limit_cpu(CHECK_CPU_SECONDS)?;
    confine(Role::Checker, head.require_all_layers).map_err(io::Error::other)?;
    // Initializes the library before the process waits for its request.
    drop(check_schema(&trivial()));
    let check: SchemaCheck = read_frame(&mut stdin)?;
    let mut frame = Vec::new();
    perpend_worker_protocol::write_frame(&check_schema(&check), &mut frame)
        .map_err(io::Error::other)?;
    io::stdout().lock().write_all(&frame)
}

fn trivial() -> SchemaCheck {
    SchemaCheck {
        schema: r#"{"type":"object"}"#.to_owned(),
        kind: SchemaKind::Any,
        values: vec!["{}".to_owned()],
    }
}

/// Validates values in this process, without limits. For tests and single-user use.
///
/// # Errors
/// When the schema cannot be used.
pub fn check_schema(check: &SchemaCheck) -> SchemaAnswer {
    // A schema is unusable when the library panics.
    catch_unwind(|| validate(check))
        .unwrap_or_else(|_| Err(Mismatch::whole("this schema cannot be used")))
}

fn validate(check: &SchemaCheck) -> SchemaAnswer {
    match check.kind {
        SchemaKind::Any => {
            let schema = parse(&check.schema)?;
            let schema = Schema::new(&schema)
                .map_err(|error| Mismatch { message: error.to_string(), pointer: error.pointer })?;
            let reports = check.values.iter().map(|value| {
                let violations = schema.violations(&parse(value)?, MAX_LISTED);
                Ok(ValueReport {
                    mismatches: violations.into_iter().map(mismatch).collect(),
                    with_defaults: None,
                })
            });
            reports.collect()
        }
        SchemaKind::Config => {
            let reports = check.values.iter().map(|value| {
                Ok(match check_config(&check.schema, parse(value)?) {
                    Ok(filled) => ValueReport {
                        mismatches: Vec::new(),
                        with_defaults: Some(filled.to_string()),
                    },
                    Err(mismatches) => ValueReport { mismatches, with_defaults: None },
                })
            });
            reports.collect()
        }
    }
}

/// The caller sends valid JSON, which may be nested too deeply.
fn parse(text: &str) -> Result<Value, Mismatch> {
    serde_json::from_str(text).map_err(|error| Mismatch::whole(format!("not JSON: {error}")))
}
