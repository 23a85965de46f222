//! Differences of a version of a plug-in to the one before.

use perpend_domain::plugin::{EvaluatorInfo, PluginInfo};
use perpend_views::Text;

/// A sentence for each difference.
pub(super) fn changes(before: &PluginInfo, after: &PluginInfo) -> Vec<Text> {
    let mut lines = Vec::new();
    let find = |info: &PluginInfo, id: &str| {
        info.evaluators.iter().find(|evaluator| evaluator.id == id).cloned()
    };
    for evaluator in &after.evaluators {
        match find(before, &evaluator.id) {
            None => lines.push(format!("new evaluator {}", evaluator.id)),
            Some(former) => {
                let parts = changed_parts(&former, evaluator);
                if !parts.is_empty() {
                    lines.push(format!("{} has another {}", evaluator.id, parts.join(", ")));
                }
            }
        }
    }
    for former in &before.evaluators {
        if find(after, &former.id).is_none() {
            lines.push(format!("evaluator {} is missing", former.id));
        }
    }
    for name in after.capabilities.without(before.capabilities).names() {
        lines.push(format!("requests the capability {name}"));
    }
    for name in before.capabilities.without(after.capabilities).names() {
        lines.push(format!("no longer requests the capability {name}"));
    }
    lines.into_iter().map(Text::from).collect()
}

fn changed_parts(before: &EvaluatorInfo, after: &EvaluatorInfo) -> Vec<&'static str> {
    let parts = [
        ("schema of its configuration", before.config_schema != after.config_schema),
        ("item", before.needs != after.needs),
        ("list of models", before.slots != after.slots),
        (
            "list of scores",
            before.scores != after.scores || before.dynamic_scores != after.dynamic_scores,
        ),
        ("description", before.title != after.title || before.description != after.description),
    ];
    parts.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use perpend_domain::plugin::{Grants, ItemParts};

    use super::*;

    fn evaluator(id: &str, schema: &str) -> EvaluatorInfo {
        EvaluatorInfo {
            id: id.to_owned(),
            title: id.to_owned(),
            description: String::new(),
            config_schema: schema.to_owned(),
            needs: ItemParts::default(),
            slots: Vec::new(),
            scores: Vec::new(),
            dynamic_scores: false,
            deterministic: true,
        }
    }

    fn plugin(evaluators: Vec<EvaluatorInfo>, capabilities: Grants) -> PluginInfo {
        PluginInfo {
            name: "acme/tone".to_owned(),
            version: "1.0.0".to_owned(),
            description: String::new(),
            evaluators,
            capabilities,
            checks_config: false,
        }
    }

    #[test]
    fn new_missing_and_changed_evaluators_and_capabilities_are_named() {
        let before = plugin(vec![evaluator("a", "{}"), evaluator("b", "{}")], Grants::NONE);
        let both = vec![evaluator("a", "true"), evaluator("c", "{}")];
        let after = plugin(both, Grants { model: true, ..Grants::NONE });
        let lines = changes(&before, &after);
        let lines: Vec<&str> = lines.iter().map(Text::raw).collect();
        let expected = [
            "a has another schema of its configuration",
            "new evaluator c",
            "evaluator b is missing",
            "requests the capability model",
        ];
        assert_eq!(lines, expected);
        assert!(changes(&before, &before).is_empty());
    }
}
