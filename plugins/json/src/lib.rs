//! First-party plug-in `assay/json`: form and content of JSON values.

mod x;
pub use x::ValidJson;

assay_plugin::plugin! {
    name: "assay/json",
    description: "Form and content of JSON values",
    evaluators: [ValidJson],
}
