//! First-party plug-in `assay/json`: form and content of JSON values.

mod diff;
mod schema;
mod valid;

pub use diff::JsonDiff;
pub use schema::JsonSchema;
pub use valid::ValidJson;

assay_plugin::plugin! {
    name: "assay/json",
    description: "Form and content of JSON values",
    evaluators: [ValidJson, JsonSchema, JsonDiff],
}
