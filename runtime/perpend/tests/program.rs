//! The program as it is started. With this test cargo builds it whenever all tests are built, as the tests of
//! whole servers need it.

use std::process::Command;

#[test]
fn it_says_its_version() {
    let output = Command::new(env!("CARGO_BIN_EXE_perpend")).arg("--version").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let expected = concat!("perpend ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
