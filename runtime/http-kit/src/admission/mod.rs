//! Request bodies: how they are read, and how much of them is in memory at once.
//!
//! Invariants:
//! - **Memory is bounded.** Every route that takes a body reads it here. Bytes are charged to the account of the
//!   request when they have arrived, never when they are announced: an announcement costs its sender nothing.
//! - **A slow sender holds only itself.** A body keeps a minimum rate and has a deadline. Nothing that others wait
//!   for (permits, turns) is taken before the whole body is here.
//! - **One key cannot take it all.** A key has a share of the memory, and a part of all memory is kept for small
//!   requests.

mod account;
mod pace;
mod read;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::Web;

pub use account::{Account, Admission, Holder};

pub use read::{Counted, read, read_encoded, too_large};

/// Layer: gives each request an account, which is closed when the handler is done: what was decoded from a body
/// stays in memory until then.
pub async fn open_account(State(web): State<Web>, mut request: Request, next: Next) -> Response {
    let account = web.admission.account();
    request.extensions_mut().insert(account.clone());
    let response = next.run(request).await;
    drop(account);
    response
}
