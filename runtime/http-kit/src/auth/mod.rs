//! Authentication and authorization.
//!
//! Invariants:
//! - **One table decides** (`perpend_domain::access`). A route names its permission, and the guard of its
//!   handler checks it: only the guard makes an [`Act`], without which no handler accesses a project.
//! - **The key determines the project.** No request parameter does, with two exceptions: the
//!   administrator of the installation, and an organization, which manages its own projects and reads no project data.
//! - **Secrets are compared as digests, in constant time**, also for an unknown public key.
//! - **Guessing is slow and locks no client out.** Wrong credentials are limited for each network; right ones are accepted
//!   (`throttle`).

mod account_session;
mod act;
mod audited;
mod basic;
mod browser;
mod cache;
mod caller;
mod guard;
mod key;
mod link_token;
mod login;
mod login_token;
mod metered_key;
mod metrics_token;
mod pair;
mod password;
mod refusals;
mod requirement;
mod session;
mod sign_in_limits;
mod throttle;

pub use account_session::{
    begin_account_session, canonical_email, is_email, signed_in, verify_password,
};
pub use act::{Act, ManagerAct, Member, OrganizationAct, SessionPerson};
pub(crate) use audited::AuditedRoute;
pub use audited::{AuditClass, note_denied};
pub use basic::Credentials;
pub use browser::{Session, SignedIn};
pub use cache::{KEPT_MS, KeyCache, KeyUse};
pub use caller::{act_of, session_of};
pub(crate) use guard::Guarded;
pub use guard::{Authenticator, KeyAuth, OtlpKeyAuth, ViewerAct};
pub use key::MeteredKey;
pub use link_token::{link_digest, new_link_token};
pub use login::log_in_with_token;
pub use login_token::LoginToken;
pub(crate) use metered_key::metered_key;
pub(crate) use metrics_token::MetricsTokenAuth;
pub use pair::KeyPair;
pub use password::Passwords;
pub use refusals::{Refusal, RefusalCount, Refusals};
pub use requirement::Requirement;
pub use session::{FormToken, create_session, end_sessions, use_session};
pub(crate) use sign_in_limits::SignInLimits;
pub use throttle::{STRONG_CHARS, Throttle};
