//! A plug-in that prints.

use perpend_plugin::prelude::*;

pub struct Talker;

impl Evaluator for Talker {
    const ID: &'static str = "talker";
    const TITLE: &'static str = "Talker";
    const DESCRIPTION: &'static str = "Prints.";
    const SCORES: &'static [ScoreSpec] = &[ScoreSpec::boolean("talked", "always true")];
    type Config = NoConfig;

    fn evaluate(item: &Item, _: &NoConfig) -> Result<Vec<Score>, EvalError> {
        let output = item.output_text()?;
        assert!(output != "panic", "it is over");
        println!("über {output}");
        eprintln!("{} and {}", 1, 2);
        println!("{}", "x".repeat(8002));
        if std::env::var("HOME").is_err() {
            println!("HOME is not set");
        }
        eprint!("no {}", "end");
        Ok(vec![Score::boolean("talked", true)])
    }
}

perpend_plugin::plugin! {
    name: "acme/talker",
    description: "Prints",
    evaluators: [Talker],
}
