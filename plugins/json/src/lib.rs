//! First-party plug-in `perpend/json`: validity, schema and similarity of JSON values.

mod diff;
mod schema;
mod valid;

pub use diff::JsonDiff;
pub use schema::JsonSchema;
pub use valid::ValidJson;

perpend_plugin::plugin! {
    name: "perpend/json",
    description: "Validity, schema and similarity of JSON values",
    evaluators: [ValidJson, JsonSchema, JsonDiff],
}
