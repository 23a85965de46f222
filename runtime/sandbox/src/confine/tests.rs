//! Tests each layer separately, in a thread that ends afterwards.
#![expect(unsafe_code, reason = "makes system calls that no library makes")]

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

use super::*;

/// Runs `inside` in a new thread that is confined by the layer.
fn with_layer<W, T: Send>(
    layer: fn() -> Result<W, String>,
    inside: impl FnOnce() -> T + Send,
) -> Option<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| match layer() {
            Ok(_) => Some(inside()),
            Err(error) => {
                drop(writeln!(io::stderr(), "not run: {error}"));
                None
            }
        });
        match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn filtered() -> Result<String, String> {
    seccomp(Role::Worker)
}

fn error_of<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// Makes a system call with numeric arguments.
fn call(number: libc::c_long, arguments: [libc::c_long; 4]) -> Option<i32> {
    let [first, second, third, fourth] = arguments;
    // SAFETY: the calls fail; the arguments are null pointers and small numbers.
    let done = unsafe { libc::syscall(number, first, second, third, fourth) };
    (done < 0).then(|| io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

#[test]
fn landlock_denies_files_and_ports() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let results = with_layer(landlock, || {
        let connect = std::net::TcpStream::connect(address);
        [
            error_of(File::open("/etc/passwd")),
            error_of(File::open("/proc/self/environ")),
            error_of(File::create("/tmp/perpend-landlock-probe")),
            error_of(std::fs::read_dir("/")),
            error_of(connect),
            error_of(TcpListener::bind("127.0.0.1:0")),
        ]
    });
    if let Some(results) = results {
        let denied = [Some(libc::EACCES); 6];
        assert_eq!(results, denied);
        assert!(!Path::new("/tmp/perpend-landlock-probe").exists());
    }
    assert!(File::open("/etc/passwd").is_ok(), "other threads are not confined");
}

#[test]
fn seccomp_denies_calls_with_enosys() {
    let parent = libc::c_long::from(std::os::unix::process::parent_id().cast_signed());
    let own = libc::c_long::from(std::process::id().cast_signed());
    let results = with_layer(filtered, || {
        let socket = |family: libc::c_int| [family.into(), libc::SOCK_STREAM.into(), 0, 0];
        let process = libc::c_long::from(libc::SIGCHLD);
        [
            ("open", error_of(File::open("/etc/passwd"))),
            ("stat", error_of(std::fs::metadata("/etc/passwd"))),
            ("read_dir", error_of(std::fs::read_dir("/"))),
            ("udp", error_of(UdpSocket::bind("127.0.0.1:0"))),
            ("socket inet", call(libc::SYS_socket, socket(libc::AF_INET))),
            ("socket unix", call(libc::SYS_socket, socket(libc::AF_UNIX))),
            ("socketpair inet", call(libc::SYS_socketpair, socket(libc::AF_INET))),
            (
                "socketpair of datagrams",
                call(libc::SYS_socketpair, [libc::AF_UNIX.into(), libc::SOCK_DGRAM.into(), 0, 0]),
            ),
            ("fork", call(libc::SYS_clone, [process, 0, 0, 0])),
            ("clone3", call(libc::SYS_clone3, [0; 4])),
            ("new namespace", call(libc::SYS_clone, [libc::CLONE_NEWUSER.into(), 0, 0, 0])),
            ("unshare", call(libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0, 0])),
            ("execve", call(libc::SYS_execve, [0; 4])),
            ("execveat", call(libc::SYS_execveat, [0; 4])),
            ("ptrace", call(libc::SYS_ptrace, [libc::PTRACE_TRACEME as _, 0, 0, 0])),
            ("read memory", call(libc::SYS_process_vm_readv, [parent, 0, 0, 0])),
            ("kill", call(libc::SYS_kill, [parent, 0, 0, 0])),
            ("kill itself", call(libc::SYS_kill, [own, 0, 0, 0])),
            ("tgkill", call(libc::SYS_tgkill, [parent, parent, 0, 0])),
            ("set a limit", call(libc::SYS_prlimit64, [0, 0, 1, 0])),
            ("limits of others", call(libc::SYS_prlimit64, [parent, 0, 0, 0])),
            ("bpf", call(libc::SYS_bpf, [0; 4])),
            ("io_uring", call(libc::SYS_io_uring_setup, [1, 0, 0, 0])),
            ("userfaultfd", call(libc::SYS_userfaultfd, [0; 4])),
            ("keyctl", call(libc::SYS_keyctl, [0; 4])),
            ("mount", call(libc::SYS_mount, [0; 4])),
            ("setuid", call(libc::SYS_setresuid, [0, 0, 0, 0])),
            ("get dumpable", call(libc::SYS_prctl, [libc::PR_GET_DUMPABLE.into(), 0, 0, 0])),
            ("tty", call(libc::SYS_ioctl, [0, libc::TIOCSTI as _, 0, 0])),
        ]
    });
    for (what, error) in results.into_iter().flatten() {
        assert_eq!(error, Some(libc::ENOSYS), "{what}");
    }
}

#[test]
fn a_process_works_under_seccomp() {
    with_layer(filtered, || {
        // Threads, clocks, random numbers, memory, locks.
        let sum: u64 = thread::spawn(|| (0..1_000).sum()).join().unwrap();
        assert_eq!(sum, 499_500);
        thread::park_timeout(std::time::Duration::from_millis(1));
        assert!(!vec![1_u8; 64 << 20].is_empty());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        assert_eq!(runtime.block_on(async { tokio::spawn(async { 7 }).await.unwrap() }), 7);
    });
}

#[test]
fn open_files_can_be_reopened_and_measured_under_seccomp() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"sealed").unwrap();
    file.rewind().unwrap();
    with_layer(filtered, || {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut again = File::open(&path).unwrap();
        assert_eq!(again.metadata().unwrap().len(), 6);
        let mut text = String::new();
        again.read_to_string(&mut text).unwrap();
        assert_eq!(text, "sealed");
        for wrong in [
            "/proc/self/fd/",
            "/proc/self/fd/x",
            "/proc/self/fd/0/..",
            "/proc/self/fd/../environ",
            "/proc/self/fd/99999999",
            "/proc/self/environ",
            "",
        ] {
            assert_eq!(error_of(File::open(wrong)), Some(libc::ENOSYS), "{wrong}");
        }
        assert_eq!(error_of(File::open("/proc/self/fd/4000")), Some(libc::EBADF));
    });
}

#[test]
fn a_process_with_threads_is_not_confined() {
    // The test harness has several threads.
    let result = thread::spawn(|| confine(Role::Worker)).join().unwrap();
    assert!(result.unwrap_err().contains("would not be confined"));
}

#[test]
fn features_that_an_older_kernel_lacks_are_named() {
    assert!(
        missing_features(1)
            .ends_with("TCP ports, commands to devices, signals and abstract sockets")
    );
    assert!(missing_features(5).ends_with("deny: signals and abstract sockets"));
}
