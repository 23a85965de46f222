//! First-party plug-in `perpend/text`: equality, containment, distance, patterns and size of texts.

mod answer;
mod containment;
mod equality;
mod numeric;
mod pattern;
mod size;
mod stats;
mod tokens;
mod verdict;
mod words;

pub use answer::{Answer, Match};
pub use containment::{ContainsAll, ContainsAny, ContainsNone, EndsWith, Includes, StartsWith};
pub use equality::{ExactMatch, Levenshtein};
pub use numeric::NumericDiff;
pub use pattern::{Pattern, Regex, RegexCount};
pub use size::{Formula, Length, Readability};
pub use stats::TextStats;
pub use tokens::{NormalizedExact, TokenF1};

perpend_plugin::plugin! {
    name: "perpend/text",
    description: "Equality, containment, distance, patterns and size of texts",
    evaluators: [
        ExactMatch,
        ContainsAll,
        ContainsAny,
        ContainsNone,
        Regex,
        Length,
        NormalizedExact,
        TokenF1,
        Includes,
        StartsWith,
        EndsWith,
        Match,
        Answer,
        Pattern,
        RegexCount,
        Levenshtein,
        NumericDiff,
        Readability,
    ],
    exports: [config_check],
}
