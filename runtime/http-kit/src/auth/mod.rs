//! Who calls, and what they may do.
//!
//! Invariants:
//! - **One table decides** (`perpend_domain::access`). A route names its permission, and the guard in front of its
//!   handler asks for it: only the guard makes an [`Act`], without which no handler finds a project.
//! - **A project comes from the key.** No parameter of a request names it. Two callers name one: the
//!   administrator of the installation, and an organization, which manages its own projects and reads none.
//! - **Secrets are compared as digests, in constant time**, and an unknown public key takes the same way.
//! - **Guessing is slow and locks nobody out.** Wrong credentials are limited for each network; right ones are accepted
//!   (`throttle`).

mod act;
mod basic;
mod cache;
mod caller;
mod counted;
mod guard;
mod key;
mod login;
mod login_token;
mod pair;
mod refusals;
mod session;
mod throttle;

pub use act::{Act, OrganizationAct};
pub use basic::Credentials;
pub use cache::{KEPT_MS, KeyCache};
pub use caller::{Session, act_of, session_of};
pub(crate) use counted::counted_key;
pub(crate) use guard::Guarded;
pub use guard::{ByKey, ByKeyOfSender, Needs, OfViewer, Way};
pub use key::{CountedKey, KnownKey};
pub use login::log_in_with_token;
pub use login_token::LoginToken;
pub use pair::KeyPair;
pub use refusals::{Refusal, Refusals};
pub use session::{FormToken, begin_session, end_sessions, use_session};
pub use throttle::{STRONG_CHARS, Throttle};
