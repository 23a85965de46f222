//! A browser to drive, and the server it looks at: Debian's chromium through chromedriver, and the `perpend`
//! program itself with its demonstration data.
//!
//! Without chromedriver the tests are reported as ignored; with `PERPEND_TEST_BROWSER=require` they fail.

pub mod axe;
mod browser;
mod driver;
mod patience;
mod process;
mod server;
mod shared;

pub use browser::{Browser, is_required};
pub use server::Server;
pub use shared::{Shared, TestServer, Visitor};
