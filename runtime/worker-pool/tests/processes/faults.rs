//! Faults of the worker in these tests, selected by the id of the item.

use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, abort};
use std::time::Duration;

use perpend_domain::plugin::{CallResult, EvaluationCall, Failure, FailureClass};

/// Size of the message of a large result.
pub(crate) const LARGE_BYTES: usize = 2 << 20;

/// Runs the fault whose name precedes the first `-` of the item id.
pub(crate) fn before_call(call: &EvaluationCall) -> Option<CallResult> {
    match call.item.id.split('-').next() {
        Some("abort") => abort(),
        // Occupies the thread forever, like a bug in the engine.
        Some("hang") => loop {
            std::thread::park();
        },
        Some(kind @ "panic") => {
            assert_ne!(kind, "panic", "requested panic");
            None
        }
        // Keeps the memory, so that it is detected eventually.
        Some("grow") => {
            let mut grown: Vec<Vec<u8>> = Vec::new();
            while grown.len() < 64 {
                grown.push(vec![1; 16 << 20]);
                std::thread::sleep(Duration::from_millis(20));
            }
            loop {
                std::thread::park();
            }
        }
        // Leaks memory.
        Some("leave") => {
            Box::leak(vec![1_u8; 300 << 20].into_boxed_slice());
            None
        }
        Some("large") => Some(CallResult {
            outcome: Err(Failure {
                class: FailureClass::PluginError,
                message: "x".repeat(LARGE_BYTES),
            }),
            ..CallResult::empty()
        }),
        Some("attempts") => Some(CallResult {
            outcome: Err(Failure {
                class: FailureClass::Internal,
                message: successes().join(", "),
            }),
            ..CallResult::empty()
        }),
        _ => None,
    }
}

/// The names of the attempts that succeed.
pub(crate) fn successes() -> Vec<String> {
    let parent = std::os::unix::process::parent_id();
    let own = std::process::id();
    let signal = || {
        let parent = rustix::process::getppid().ok_or(io::ErrorKind::NotFound)?;
        Ok(rustix::process::test_kill_process(parent)?)
    };
    let write = || File::create(std::env::temp_dir().join(format!("perpend-{own}"))).map(drop);
    let attempts: [(&str, &dyn Fn() -> io::Result<()>); 11] = [
        ("open", &|| File::open("/etc/passwd").map(drop)),
        ("write", &write),
        ("list", &|| std::fs::read_dir("/").map(drop)),
        ("exists", &|| std::fs::metadata("/etc/passwd").map(drop)),
        ("environment of the parent", &|| File::open(format!("/proc/{parent}/environ")).map(drop)),
        ("memory of the parent", &|| File::open(format!("/proc/{parent}/mem")).map(drop)),
        ("udp", &|| UdpSocket::bind("127.0.0.1:0").map(drop)),
        ("listen", &|| TcpListener::bind("127.0.0.1:0").map(drop)),
        ("connect", &|| match TcpStream::connect("127.0.0.1:1") {
            // The connection was attempted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            other => other.map(drop),
        }),
        ("start a program", &|| Command::new("/bin/true").status().map(drop)),
        ("signal the parent", &signal),
    ];
    let possible = attempts
        .into_iter()
        .filter(|(_, attempt)| attempt().is_ok())
        .map(|(name, _)| name.to_owned());
    possible.collect()
}
