//! First-party plug-in `assay/text`: equality, containment and size of texts.

mod equality;

pub use equality::ExactMatch;

assay_plugin::plugin! {
    name: "assay/text",
    description: "Equality, containment, distance and length of texts",
    evaluators: [ExactMatch],
}
