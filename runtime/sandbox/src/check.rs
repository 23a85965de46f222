//! Schemas that others wrote, held against values.
//!
//! Happens in a child process of its own ([`check_main`]): a small schema can ask for any amount of time,
//! memory and stack. The process ends at its limits, whatever it was doing.

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
use crate::faults::{MAX_LISTED, mismatch};

/// What `perpend check` runs: reads a [`CheckHead`] and a [`SchemaCheck`] from standard input, confines itself
/// between the two, and writes a [`SchemaAnswer`] to standard output.
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
    // The process may wait for a while now. What the library makes once per process is made here.
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

/// Holds values against a schema in this process, for as long as it asks for: for tests and single-user use.
///
/// # Errors
/// When the schema cannot be used.
pub fn check_schema(check: &SchemaCheck) -> SchemaAnswer {
    // A schema that makes the library panic is one that cannot be used.
    catch_unwind(|| held(check))
        .unwrap_or_else(|_| Err(Mismatch::whole("this schema cannot be used")))
}

fn held(check: &SchemaCheck) -> SchemaAnswer {
    match check.kind {
        SchemaKind::Any => {
            let schema = parsed(&check.schema)?;
            let schema = Schema::new(&schema)
                .map_err(|why| Mismatch { message: why.to_string(), pointer: why.pointer })?;
            let held = check.values.iter().map(|value| {
                let faults = schema.violations(&parsed(value)?, MAX_LISTED);
                Ok(ValueReport {
                    mismatches: faults.into_iter().map(mismatch).collect(),
                    with_defaults: None,
                })
            });
            held.collect()
        }
        SchemaKind::Config => {
            let held = check.values.iter().map(|value| {
                Ok(match check_config(&check.schema, parsed(value)?) {
                    Ok(filled) => ValueReport {
                        mismatches: Vec::new(),
                        with_defaults: Some(filled.to_string()),
                    },
                    Err(mismatches) => ValueReport { mismatches, with_defaults: None },
                })
            });
            held.collect()
        }
    }
}

/// Both came as JSON: what cannot be read is nested too deeply.
fn parsed(text: &str) -> Result<Value, Mismatch> {
    serde_json::from_str(text).map_err(|error| Mismatch::whole(format!("not JSON: {error}")))
}
