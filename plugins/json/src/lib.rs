//! First-party plug-in `perpend/json`: form and content of JSON values.

mod diff;
mod schema;
mod valid;

pub use diff::JsonDiff;
pub use schema::JsonSchema;
pub use valid::ValidJson;

perpend_plugin::plugin! {
    name: "perpend/json",
    description: "Form and content of JSON values",
    evaluators: [ValidJson, JsonSchema, JsonDiff],
}
