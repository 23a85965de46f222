//! The schedule of a rule on its page.

use perpend_domain::evaluation::{ExecutionState, Rule};
use perpend_executions::{RuleFiring, StateCount};
use perpend_http_kit::problem::Problem;
use perpend_views::{FiringLine, RuleScheduleView, Text, count, duration};

use crate::request::viewer::Viewer;
use crate::state::App;

/// Next firings shown.
pub(super) const N_NEXT: usize = 5;
/// Last firings shown.
const N_LAST: u32 = 10;
/// The period in which missed firings are counted.
const MISSED_MS: i64 = 31 * 86_400_000;
/// A firing that is noticed later is late: the job that records firings runs at intervals of seconds.
const ON_TIME_US: i64 = 60_000_000;
/// Labels of executions, in the order of the page.
const LABELS: [&str; 5] = ["open", "scored", "skipped", "failed", "cancelled"];

fn label(state: ExecutionState) -> &'static str {
    match state {
        ExecutionState::Completed => "scored",
        ExecutionState::Skipped => "skipped",
        ExecutionState::Failed => "failed",
        ExecutionState::Cancelled => "cancelled",
        _ => "open",
    }
}

fn firing_line(firing: &RuleFiring, states: &[StateCount]) -> FiringLine {
    let late_us = firing.noticed_at.as_micros() - firing.fired_at.as_micros();
    let executions = LABELS.into_iter().filter_map(|name| {
        let of_label = states.iter().filter(|each| label(each.state) == name);
        let n: u64 = of_label.map(|each| each.n).sum();
        (0 < n).then(|| (name, count(n)))
    });
    FiringLine {
        fired_at: firing.fired_at,
        from: firing.from,
        late: (ON_TIME_US <= late_us).then(|| duration(late_us)),
        missed: count(firing.n_missed),
        executions: executions.collect(),
    }
}

/// The schedule of a rule; absent if it has and had none.
pub(super) async fn view(
    app: &App,
    viewer: &Viewer,
    rule: &Rule,
) -> Result<Option<RuleScheduleView>, Problem> {
    let (ledger, project, now) = (&app.store.ledger, &viewer.project, app.web.clock.now());
    let last = ledger.firings(project, &rule.id, N_LAST).await?;
    let schedule = rule.schedule.as_ref();
    if schedule.is_none() && last.is_empty() {
        return Ok(None);
    }
    let states = ledger.firing_states(project, &rule.id, &last).await?;
    let firings = last.iter().zip(&states).map(|(firing, states)| firing_line(firing, states));
    let firings = firings.collect();
    let since = now.plus_millis(-MISSED_MS);
    let n_missed = ledger.n_missed_firings(project, &rule.id, since).await?;
    Ok(Some(RuleScheduleView {
        cron: schedule.map(|own| Text::from(own.expression())),
        timezone: schedule.map(|own| Text::from(own.timezone())),
        next: schedule
            .filter(|_| rule.enabled)
            .map(|own| own.upcoming(now, N_NEXT).into_iter().map(|at| own.local(at)).collect())
            .unwrap_or_default(),
        missed: count(n_missed),
        firings,
    }))
}

#[cfg(test)]
mod tests {
    use perpend_domain::time::Timestamp;

    use super::*;

    #[test]
    fn a_firing_has_its_executions_by_outcome_and_its_delay() {
        let at = Timestamp::from_millis(1_772_000_000_000);
        let firing = RuleFiring {
            fired_at: at,
            from: at.plus_millis(-3_600_000),
            noticed_at: at.plus_millis(2 * 3_600_000),
            n_missed: 1,
        };
        let states = [
            StateCount { state: ExecutionState::Running, n: 1 },
            StateCount { state: ExecutionState::Held, n: 2 },
            StateCount { state: ExecutionState::Failed, n: 4 },
        ];
        let line = firing_line(&firing, &states);
        assert_eq!(line.executions, [("open", "3".to_owned()), ("failed", "4".to_owned())]);
        assert_eq!((line.late.as_deref(), line.missed.as_str()), (Some("2 h 00 min"), "1"));
        let on_time = RuleFiring { noticed_at: at.plus_millis(5_000), ..firing };
        assert_eq!(firing_line(&on_time, &[]).late, None);
    }
}
