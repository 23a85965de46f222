//! The fields of the editor of a rule, and the request body that they mean.

use perpend_domain::budget::Budget;
use perpend_domain::cron::Schedule;
use perpend_domain::evaluation::{Assignment, LatePolicy, Mapping, OnMissing, Rule, TargetKind};
use perpend_domain::filter::{Condition, Test, WrittenFilter, find};
use perpend_domain::ids::RuleId;
use perpend_domain::query::{parse, print_condition};
use perpend_domain::time::Timestamp;
use perpend_http_kit::extract::Params;
use perpend_views::{RuleFields, Text};
use serde_json::{Map, Value, json};

use super::definition::{conditions_of, mapping_line, percent};
use super::schedule::N_NEXT;

/// Percent of audited targets of a new rule, the default of the API.
const DEFAULT_AUDIT: &str = "2";

/// Problems at fields of the form.
pub(super) type FieldProblems = Vec<(&'static str, Text)>;

/// An evaluator that the form selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SelectedEvaluator {
    pub(super) id: String,
    /// Lines of variable, source and path.
    pub(super) mapping: String,
    pub(super) version: String,
}

/// The values of the form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleForm {
    pub(super) target: TargetKind,
    pub(super) fields: RuleFields,
    pub(super) evaluators: Vec<SelectedEvaluator>,
    /// Ids of rules to wait for.
    pub(super) after: Vec<String>,
}

impl RuleForm {
    /// The form of a new rule.
    pub(super) fn new(target: TargetKind) -> Self {
        Self {
            target,
            fields: RuleFields {
                sampling: "100".to_owned(),
                on_missing: OnMissing::Fail.as_str().to_owned(),
                late: LatePolicy::Ignore.as_str().to_owned(),
                audit: DEFAULT_AUDIT.to_owned(),
                ..RuleFields::default()
            },
            evaluators: Vec::new(),
            after: Vec::new(),
        }
    }

    /// Selects an evaluator with its own mapping, at its newest version.
    pub(super) fn select(&mut self, id: String) {
        if self.evaluators.iter().all(|own| own.id != id) {
            let (mapping, version) = (String::new(), String::new());
            self.evaluators.push(SelectedEvaluator { id, mapping, version });
        }
    }

    /// The form of a stored rule.
    pub(super) fn of_rule(rule: &Rule) -> Self {
        let (q, conditions) = filter_fields(&rule.filter);
        let ms = |ms: Option<i64>| ms.map(|ms| ms.to_string()).unwrap_or_default();
        let schedule = rule.schedule.as_ref();
        let budget = rule.budget.iter().map(budget_line).collect::<Vec<_>>().join("\n");
        let evaluators = rule.assignments.iter().map(|assignment| SelectedEvaluator {
            id: assignment.evaluator_id.to_string(),
            mapping: mapping_lines(assignment),
            version: assignment.version.to_string(),
        });
        Self {
            target: rule.target,
            evaluators: evaluators.collect(),
            after: rule.after.iter().map(RuleId::to_string).collect(),
            fields: RuleFields {
                revision: rule.revision().to_string(),
                name: rule.name.clone(),
                q,
                conditions,
                sampling: percent(rule.sampling),
                is_independent: rule.sampling_independent,
                cron: schedule.map(Schedule::expression).unwrap_or_default().to_owned(),
                timezone: schedule.map(Schedule::timezone).unwrap_or_default().to_owned(),
                settle_ms: ms(rule.timing.settle_ms),
                quiet_ms: ms(rule.timing.quiet_ms),
                max_wait_ms: ms(rule.timing.max_wait_ms),
                on_missing: rule.on_missing.as_str().to_owned(),
                late: rule.late.as_str().to_owned(),
                budget,
                audit: percent(rule.audit),
            },
        }
    }

    /// The submitted form. An unknown target is one of observations.
    pub(super) fn of_params(params: &Params) -> Self {
        let field = |name: &str| {
            let raw = params.raw(name).unwrap_or_default().replace("\r\n", "\n");
            raw.trim().to_owned()
        };
        let evaluators = params.all("evaluator").into_iter().map(|id| SelectedEvaluator {
            mapping: field(&format!("mapping:{id}")),
            version: field(&format!("version:{id}")),
            id,
        });
        Self {
            target: field("target").parse().unwrap_or(TargetKind::Observation),
            evaluators: evaluators.collect(),
            after: params.all("after"),
            fields: RuleFields {
                revision: field("revision"),
                name: field("name"),
                q: field("q"),
                conditions: field("conditions"),
                sampling: field("sampling"),
                is_independent: params.text("independent").is_some(),
                cron: field("cron"),
                timezone: field("timezone"),
                settle_ms: field("settle_ms"),
                quiet_ms: field("quiet_ms"),
                max_wait_ms: field("max_wait_ms"),
                on_missing: field("on_missing"),
                late: field("late"),
                budget: field("budget"),
                audit: field("audit"),
            },
        }
    }

    fn timezone(&self) -> &str {
        match self.fields.timezone.as_str() {
            "" => "UTC",
            timezone => timezone,
        }
    }

    /// The next firings of the schedule on the clock of its time zone; empty without a valid one.
    pub(super) fn next_firings(&self, now: Timestamp) -> Vec<String> {
        let Ok(schedule) = Schedule::parse(&self.fields.cron, self.timezone()) else {
            return Vec::new();
        };
        let next = schedule.upcoming(now, N_NEXT);
        next.into_iter().map(|at| schedule.local(at)).collect()
    }

    /// Adds the members of the schedule; nothing without a schedule before and after.
    fn add_schedule(&self, body: &mut Map<String, Value>, current: Option<&Rule>) {
        if !self.fields.cron.is_empty() {
            body.insert("schedule".to_owned(), json!("cron"));
            body.insert("cron".to_owned(), json!(self.fields.cron));
            body.insert("timezone".to_owned(), json!(self.timezone()));
        } else if current.is_some_and(|rule| rule.schedule.is_some()) {
            body.insert("schedule".to_owned(), json!("continuous"));
        }
    }

    /// Replaces the filter by that of a list, as far as rules have its conditions. Returns the omitted conditions.
    pub(super) fn take_filter(&mut self, q: &str, environments: &[String]) -> Vec<Text> {
        let columns = self.target.filter_columns();
        let (mut terms, mut left_out) = (Vec::new(), Vec::new());
        for term in parse(q, columns).terms {
            match term.outcome {
                Ok(_) => terms.push(term.text),
                Err(_) => left_out.push(Text::from(format!(
                    "Not copied from the list: {}. Rules of this target cannot test it.",
                    term.text
                ))),
            }
        }
        if !environments.is_empty() {
            let test = Test::AnyOf(environments.to_vec());
            let condition = Condition { column: find(columns, "environment"), test };
            match print_condition(&condition) {
                Some(term) => terms.push(term),
                None => left_out.push(Text::from(
                    "Not copied from the list: the environments. Rules of this target have no such column.",
                )),
            }
        }
        self.fields.q = terms.join(" ");
        left_out
    }

    /// The body of the request that creates a rule, or that changes `current`: then it has only the members that differ.
    pub(super) fn body(&self, current: Option<&Rule>) -> Result<Value, FieldProblems> {
        let mut problems = Vec::new();
        let mut body = Map::new();
        let fields = &self.fields;
        body.insert("name".to_owned(), json!(fields.name));
        body.insert("target".to_owned(), json!(self.target.as_str()));
        body.insert("samplingIndependent".to_owned(), json!(fields.is_independent));
        body.insert("onMissing".to_owned(), json!(fields.on_missing));
        body.insert("late".to_owned(), json!(fields.late));
        body.insert("after".to_owned(), json!(self.after));
        self.add_schedule(&mut body, current);
        let stored = current.map(|rule| rule.timing).unwrap_or_default();
        let values = [
            ("filter", self.filter(current)),
            ("sampling", share("sampling", &fields.sampling, current.map(|rule| rule.sampling))),
            ("evaluatorAssignments", self.assignments(current)),
            ("budget", budget(&fields.budget)),
            ("settleMs", milliseconds("settle_ms", &fields.settle_ms, stored.settle_ms)),
            ("quietMs", milliseconds("quiet_ms", &fields.quiet_ms, stored.quiet_ms)),
            ("maxWaitMs", milliseconds("max_wait_ms", &fields.max_wait_ms, stored.max_wait_ms)),
        ];
        let audit = match self.after.is_empty() || fields.audit.is_empty() {
            true => Ok(Value::Null),
            false => share("audit", &fields.audit, current.map(|rule| rule.audit)),
        };
        for (member, value) in values.into_iter().chain([("audit", audit)]) {
            match value {
                Ok(value) => drop(body.insert(member.to_owned(), value)),
                Err(own) => problems.extend(own),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        if let Some(current) = current {
            let stored = current.definition();
            body.retain(|member, value| stored.get(member.as_str()) != Some(&*value));
            body.insert("revision".to_owned(), json!(fields.revision));
        }
        body.retain(|_, value| !value.is_null());
        name_latest_versions(&mut body);
        Ok(Value::Object(body))
    }

    /// Of a stored rule the conditions as they were sent, if the fields mean the same.
    fn filter(&self, current: Option<&Rule>) -> Result<Value, FieldProblems> {
        let (mut conditions, faults) = conditions_of(&self.fields.q, self.target);
        let mut problems: FieldProblems = faults.into_iter().map(|fault| ("q", fault)).collect();
        if !self.fields.conditions.is_empty() {
            match serde_json::from_str::<Vec<Value>>(&self.fields.conditions) {
                Ok(others) => conditions.extend(others),
                Err(error) => problems.push((
                    "conditions",
                    Text::from(format!("must be a JSON array of conditions: {error}")),
                )),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        if let Some(rule) = current
            && rule.target == self.target
            && filter_fields(&rule.filter)
                == (self.fields.q.clone(), self.fields.conditions.clone())
        {
            return Ok(json!(rule.filter.sent()));
        }
        Ok(json!(conditions))
    }

    /// The stored mapping of an evaluator is kept if the field means the same.
    fn assignments(&self, current: Option<&Rule>) -> Result<Value, FieldProblems> {
        let stored = current.map(|rule| rule.assignments.as_slice()).unwrap_or_default();
        let mut problems = Vec::new();
        let mut assignments = Vec::new();
        for evaluator in &self.evaluators {
            let version = Some(evaluator.version.as_str());
            let version = version.filter(|version| !["", "latest"].contains(version));
            let own = stored.iter().find(|own| own.evaluator_id.as_str() == evaluator.id);
            let entries = match own {
                Some(own) if mapping_lines(own) == evaluator.mapping => Ok(own.mapping.clone()),
                _ => mapping(&evaluator.mapping),
            };
            match entries {
                Ok(mapping) => assignments.push(json!({
                    "evaluatorId": evaluator.id,
                    "variableMapping": mapping,
                    "versionPolicy": version,
                })),
                Err(problem) => problems.push(("evaluators", problem)),
            }
        }
        match problems.is_empty() {
            true => Ok(Value::Array(assignments)),
            false => Err(problems),
        }
    }
}

/// An absent version policy would keep the stored one.
fn name_latest_versions(body: &mut Map<String, Value>) {
    let assignments = body.get_mut("evaluatorAssignments").and_then(Value::as_array_mut);
    for assignment in assignments.into_iter().flatten() {
        if assignment["versionPolicy"].is_null() {
            assignment["versionPolicy"] = json!("latest");
        }
    }
}

/// The conditions as text, and those without a text as a JSON array; empty if there are none.
fn filter_fields(filter: &WrittenFilter) -> (String, String) {
    let (mut terms, mut others) = (Vec::new(), Vec::new());
    for (sent, condition) in filter.iter() {
        match print_condition(condition) {
            Some(term) => terms.push(term),
            None => others.push(sent.clone()),
        }
    }
    let others = match others.is_empty() {
        true => String::new(),
        false => serde_json::to_string_pretty(&others).unwrap_or_default(),
    };
    (terms.join(" "), others)
}

fn mapping_lines(assignment: &Assignment) -> String {
    let lines = assignment.mapping.iter().flatten().map(mapping_line);
    lines.collect::<Vec<_>>().join("\n")
}

fn budget_line(budget: &Budget) -> String {
    format!("{} {} {}", budget.window.as_str(), budget.usd, budget.on_reached.as_str())
}

/// A share in percent. The text of the stored share is that share, whatever digits it lacks.
fn share(field: &'static str, text: &str, stored: Option<f64>) -> Result<Value, FieldProblems> {
    if let Some(stored) = stored.filter(|stored| percent(*stored) == text) {
        return Ok(json!(stored));
    }
    match text.parse::<f64>() {
        Ok(percent) if percent.is_finite() => Ok(json!((percent * 1e6).round() / 1e8)),
        _ => {
            let problem = Text::from(format!("must be a number in percent, got `{text}`"));
            Err(vec![(field, problem)])
        }
    }
}

/// A duration; the API cannot remove a stored one.
fn milliseconds(
    field: &'static str,
    text: &str,
    stored: Option<i64>,
) -> Result<Value, FieldProblems> {
    let problem = |message: String| Err(vec![(field, Text::from(message))]);
    match (text, stored) {
        ("", None) => Ok(Value::Null),
        ("", Some(stored)) => problem(format!(
            "a stored duration ({stored} ms) can be changed and not removed; enter the default"
        )),
        (text, _) => match text.parse::<i64>() {
            Ok(ms) => Ok(json!(ms)),
            Err(_) => problem(format!("must be a whole number of milliseconds, got `{text}`")),
        },
    }
}

/// Lines of window, dollars and action.
fn budget(text: &str) -> Result<Value, FieldProblems> {
    let mut budgets = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (window, usd, action) = match words.as_slice() {
            [window, usd] => (*window, *usd, "hold"),
            [window, usd, action] => (*window, *usd, *action),
            _ => ("", "", ""),
        };
        let amount = usd.trim_start_matches('$').parse::<f64>().ok();
        let budget = amount.map(|usd| json!({ "window": window, "usd": usd, "onReached": action }));
        let budget = budget.and_then(|value| serde_json::from_value::<Budget>(value).ok());
        let Some(budget) = budget else {
            let problem = format!(
                "a budget must be a window (day, week, month or total), US dollars, and hold or skip; got `{line}`"
            );
            return Err(vec![("budget", Text::from(problem))]);
        };
        budgets.push(budget);
    }
    Ok(json!(budgets))
}

/// Lines of variable, source and path; `None` without a line.
pub(crate) fn mapping(text: &str) -> Result<Option<Vec<Mapping>>, Text> {
    let mut entries = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (variable, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (source, path) = match rest.trim().split_once(char::is_whitespace) {
            Some((source, path)) => (source, Some(path.trim().to_owned())),
            None => (rest.trim(), None),
        };
        if source.is_empty() {
            return Err(Text::from(format!(
                "a line of a mapping must have a variable, a source and, if needed, a JSONPath; got `{line}`"
            )));
        }
        entries.push(Mapping {
            variable: variable.to_owned(),
            source: source.to_owned(),
            json_path: path,
        });
    }
    Ok(Some(entries).filter(|entries| !entries.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> RuleForm {
        let mut form = RuleForm::new(TargetKind::Observation);
        form.fields.name = "tone".to_owned();
        form.evaluators = vec![SelectedEvaluator {
            id: "e".to_owned(),
            mapping: "output output $.a[?@.b == 'c d']\ninput input".to_owned(),
            version: String::new(),
        }];
        form
    }

    #[test]
    fn a_form_is_the_body_of_a_request() {
        let mut form = form();
        form.fields.q = "type:GENERATION -name:~health".to_owned();
        form.fields.sampling = "33.3".to_owned();
        form.fields.budget = "day 2.5\ntotal $10 skip".to_owned();
        let body = form.body(None).unwrap();
        assert_eq!(body["sampling"], json!(0.333));
        assert_eq!(body["filter"].as_array().map(Vec::len), Some(2), "{body}");
        assert_eq!(body["filter"][0]["column"], "type");
        let mapping = &body["evaluatorAssignments"][0]["variableMapping"];
        assert_eq!(mapping[0]["jsonPath"], "$.a[?@.b == 'c d']", "{mapping}");
        assert_eq!(body["evaluatorAssignments"][0]["versionPolicy"], "latest");
        assert_eq!(body["budget"][1]["onReached"], "skip", "{body}");
        assert!(body.get("settleMs").is_none() && body.get("audit").is_none(), "{body}");
    }

    #[test]
    fn a_schedule_is_in_utc_unless_a_time_zone_is_entered() {
        let mut form = form();
        assert!(form.body(None).unwrap().get("schedule").is_none());
        form.fields.cron = "30 2 * * *".to_owned();
        let body = form.body(None).unwrap();
        assert_eq!((&body["schedule"], &body["timezone"]), (&json!("cron"), &json!("UTC")));
        let now = Timestamp::parse("2026-03-28T12:00:00Z").unwrap();
        assert_eq!(form.next_firings(now)[0], "Sun 2026-03-29 02:30 +00:00");
        form.fields.timezone = "Europe/Berlin".to_owned();
        assert_eq!(form.body(None).unwrap()["timezone"], "Europe/Berlin");
        assert_eq!(form.next_firings(now)[0], "Sun 2026-03-29 03:00 +02:00");
        form.fields.timezone = "Europe/Bonn".to_owned();
        assert!(form.next_firings(now).is_empty());
    }

    #[test]
    fn problems_are_at_their_fields() {
        let mut form = form();
        form.fields.q = "weather:fine".to_owned();
        form.fields.sampling = "much".to_owned();
        form.fields.budget = "year 5".to_owned();
        form.fields.settle_ms = "soon".to_owned();
        form.evaluators[0].mapping = "output".to_owned();
        let problems = form.body(None).unwrap_err();
        let fields: Vec<&str> = problems.iter().map(|(field, _)| *field).collect();
        assert_eq!(fields, ["q", "sampling", "evaluators", "budget", "settle_ms"], "{problems:?}");
    }

    #[test]
    fn the_filter_of_a_list_is_taken_over_except_what_rules_cannot_test() {
        let mut form = form();
        let left_out = form.take_filter("level:ERROR latency:>2 \"refund\"", &["prod".to_owned()]);
        assert_eq!(form.fields.q, "level:ERROR environment:prod");
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        assert!(left_out[0].raw().contains("latency:>2"), "{left_out:?}");
    }
}
