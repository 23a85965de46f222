//! The limit of trace data that a call may read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::Limits;
use perpend_sandbox::{Host, Port, Settings};
use perpend_worker_protocol::host_call::{HostReply, HostRequest};

use crate::guest::Guest;
use crate::neighbours::{call, plugin};

/// Returns 1 MiB for each request.
struct OneMibPort(Arc<AtomicUsize>);

impl Port for OneMibPort {
    fn call(&self, _: HostRequest) -> BoxFuture<'static, HostReply> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let payload = Payload::Text("x".repeat(1 << 20));
        Box::pin(std::future::ready(HostReply::Read(Ok(Some(payload)))))
    }
}

#[test]
fn reading_more_than_64_mib_of_traces_fails() {
    let guest = Guest {
        imports: r#"(alias export $types "payload" (type $payload))
          (import "perpend:evaluator/trace-reader@1.0.0" (instance $traces
            (alias outer 1 $payload (type $outer)) (export "payload" (type $payload (eq $outer)))
            (type $error' (variant (case "not-granted" string) (case "not-found" string)
              (case "too-large" string) (case "unavailable" string) (case "cancelled")))
            (export "trace-error" (type $error (eq $error')))
            (export "read-input" (func (param "trace-id" string) (param "observation-id" string)
              (result (result (option $payload) (error $error)))))))
          (core module $side (memory (export "memory") 20)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0x10000))
            (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0))))
          (core instance $side (instantiate $side))
          (alias core export $side "load" (core func $load))
          (core func $read (canon lower (func $traces "read-input")
            (memory (core memory $side "memory")) (realloc (core func $side "realloc"))))"#,
        with: r#"(with "host" (instance (export "read" (func $read)) (export "load" (func $load))))"#,
        core_imports: r#"(import "host" "read" (func $read (param i32 i32 i32 i32 i32)))
            (import "host" "load" (func $load (param i32) (result i32)))"#,
        // Reads until an error occurs, which must be `too-large` (2).
        evaluate: "(loop $more
              (call $read (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 256))
              (br_if $more (i32.eqz (call $load (i32.const 256)))))
            (if (i32.ne (call $load (i32.const 260)) (i32.const 2)) (then unreachable))",
        ..Guest::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let host = Host::new(&Settings::default(), folder.path()).unwrap();
    let plugin = plugin(&host, folder.path(), &guest.bytes());
    let n_requests = Arc::new(AtomicUsize::new(0));
    let port = Arc::new(OneMibPort(Arc::clone(&n_requests)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = Limits { cpu_ms: 20_000, ..Limits::default() };
    let result = runtime.block_on(host.evaluate(&plugin, call(limits), port));
    assert!(result.outcome.is_ok(), "{:?}", result.outcome);
    assert_eq!(n_requests.load(Ordering::SeqCst), 65);
}
