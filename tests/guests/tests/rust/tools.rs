//! Reads a trace, names its scores by the data, and offers batches.

use perpend_plugin::prelude::*;
use perpend_plugin::trace;

/// One score per tool that was called.
pub struct Tools;

impl Evaluator for Tools {
    const ID: &'static str = "tools";
    const TITLE: &'static str = "Tools";
    const DESCRIPTION: &'static str = "Which tools were called.";
    const NEEDS: Parts = Parts {
        trace: true,
        ..Parts::NONE
    };
    const SCORES: &'static [ScoreSpec] = &[];
    const DYNAMIC_SCORES: bool = true;
    type Config = NoConfig;

    fn evaluate(item: &Item, _: &NoConfig) -> Result<Vec<Score>, EvalError> {
        let subject = item
            .trace
            .as_ref()
            .ok_or_else(|| EvalError::not_applicable("the item has no trace"))?;
        let wanted = trace::Filter {
            kinds: vec![trace::Kind::Tool],
            ..trace::Filter::default()
        };
        let mut scores = Vec::new();
        for call in trace::observations(&subject.trace_id, &wanted)? {
            let input = trace::read_input(&subject.trace_id, &call.id)?;
            let name = format!("called_{}", call.name.unwrap_or_default());
            let score = Score::boolean(&name, true).on_observation(call.id);
            scores.push(
                score.comment(input.map_or_else(String::new, |input| input.as_text().to_owned())),
            );
        }
        Ok(scores)
    }
}

perpend_plugin::plugin! {
    name: "acme/tools",
    description: "Tools",
    evaluators: [Tools],
    exports: [batch, config_check],
}
