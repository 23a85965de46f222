//! Reading of request bodies, and the limit of their memory.
//!
//! Invariants:
//! - **Memory is bounded.** Every route with a request body reads it here. Bytes are charged to the account of the
//!   request when they arrive, not when `Content-Length` announces them.
//! - **A slow sender delays no other request.** A body has a minimum rate and a deadline. No shared permit or turn is
//!   taken before the whole body has arrived.
//! - **One key cannot take all memory.** Each key has a share of it, and a part is reserved for small
//!   requests.

mod account;
mod pace;
mod read;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::Web;

pub use account::{Account, AccountOwner, Admission};

pub use read::{BodyChunks, ChargedBody, read, read_encoded, too_large};

/// Layer: gives each request an account, which is closed when the handler returns: data decoded from a body
/// stays in memory until then.
pub async fn open_account(State(web): State<Web>, mut request: Request, next: Next) -> Response {
    let account = web.admission.account();
    request.extensions_mut().insert(account.clone());
    let response = next.run(request).await;
    drop(account);
    response
}
