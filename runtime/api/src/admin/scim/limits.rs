//! What discovery tells and the list keeps to.

pub(super) const LIST_SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// Users of one answer, whatever is asked for.
pub(super) const MAX_COUNT: i64 = 1_000;
