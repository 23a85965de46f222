//! Limits of the list of users, which discovery reports.

pub(super) const LIST_SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// Most users in one response.
pub(super) const MAX_COUNT: i64 = 1_000;
