//! From a decoded request to a batch.
use crate::{Context, Mapped, Request};
/// Maps.
#[must_use]
pub fn map(request: &Request<'_>, context: &Context) -> Mapped {
    let _ = (request, context);
    Mapped::default()
}
