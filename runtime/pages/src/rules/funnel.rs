//! The funnel of a rule as steps whose parts add up.

use perpend_domain::funnel::Funnel;
use perpend_views::{FunnelPart, FunnelStep, Tone, count};

/// Label, number of targets or executions, and the state of these executions.
type PartCount = (&'static str, u64, Option<&'static str>);

/// A step with its parts; parts of 0 are left out. `executions` is the URL of the list of executions of the rule, which
/// the link of a part filters by its state.
fn step(
    (title, label): (&'static str, &'static str),
    total: u64,
    parts: &[PartCount],
    executions: &str,
) -> FunnelStep {
    let sum: u64 = parts.iter().map(|(_, n, _)| n).sum();
    let shown = parts.iter().filter(|(_, n, _)| 0 < *n);
    let part = |&(label, n, state): &PartCount| FunnelPart {
        label,
        n: count(n),
        href: state.map(|state| format!("{executions}&state={state}")),
        tone: if state == Some("failed") { Tone::Bad } else { Tone::Plain },
    };
    FunnelStep {
        title,
        label,
        total: count(total),
        parts: shown.map(part).collect(),
        difference: (sum != total).then(|| count(sum.abs_diff(total))),
    }
}

/// The steps of a funnel.
pub(super) fn steps(funnel: &Funnel, executions: &str) -> Vec<FunnelStep> {
    let targets = [
        ("while the rule was off", funnel.rule_inactive, None),
        ("while the rule was paused", funnel.rule_paused, None),
        ("of an environment of the server", funnel.internal_environment, None),
        ("not items of experiments", funnel.not_an_item, None),
        ("not matched", funnel.not_matched, None),
        ("matched, not in the sample", funnel.sampled_out, None),
        ("matched, in the sample", funnel.sampled, None),
    ];
    let evaluations = [
        ("executions made", funnel.made, None),
        ("already evaluated", funnel.duplicate, None),
        ("already evaluated, more data arrived", funnel.late, None),
        ("budget exhausted", funnel.budget, None),
    ];
    let total = funnel.made + funnel.duplicate + funnel.late + funnel.budget;
    let executions_of_period = [
        ("pending", funnel.pending, Some("pending")),
        ("running", funnel.running, Some("running")),
        ("delayed until the next attempt", funnel.delayed, Some("delayed")),
        ("held", funnel.held, Some("held")),
        ("scored", funnel.scored, Some("completed")),
        ("nothing to measure", funnel.skipped, Some("skipped")),
        ("failed", funnel.failed, Some("failed")),
        ("cancelled", funnel.cancelled, Some("cancelled")),
        ("deleted with their targets", funnel.missing, None),
    ];
    let made = funnel.made + funnel.carried_over;
    let label = match funnel.carried_over {
        0 => "made",
        _ => "created, open before, or requeued",
    };
    vec![
        step(("Targets", "arrived"), funnel.arrived, &targets, executions),
        step(("Evaluations", "sampled targets × evaluators"), total, &evaluations, executions),
        step(("Executions", label), made, &executions_of_period, executions),
    ]
}

/// Labels and numbers of a funnel in one column, without the empty ones.
pub(super) fn summary(funnel: &Funnel) -> Vec<(&'static str, String)> {
    let all = [
        ("arrived", funnel.arrived),
        ("matched", funnel.matched),
        ("sampled", funnel.sampled),
        ("waiting", funnel.waiting()),
        ("scored", funnel.scored),
        ("skipped", funnel.skipped),
        ("failed", funnel.failed),
    ];
    let shown = all.into_iter().filter(|(_, n)| 0 < *n);
    shown.map(|(label, n)| (label, count(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_each_step_are_its_total() {
        let funnel = Funnel {
            arrived: 100,
            not_matched: 60,
            matched: 40,
            sampled_out: 30,
            sampled: 10,
            made: 10,
            held: 4,
            scored: 5,
            failed: 1,
            ..Funnel::default()
        };
        let steps = steps(&funnel, "/p/executions?rule=r");
        assert!(steps.iter().all(|step| step.difference.is_none()), "{steps:?}");
        let failed = steps[2].parts.iter().find(|part| part.label == "failed").unwrap();
        assert_eq!(failed.href.as_deref(), Some("/p/executions?rule=r&state=failed"));
        let odd = Funnel { arrived: 99, ..funnel };
        assert_eq!(super::steps(&odd, "")[0].difference.as_deref(), Some("1"));
    }
}
