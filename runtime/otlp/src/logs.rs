//! Log records that belong to spans (otlp.md 2.17).

use std::collections::HashMap;

use perpend_domain::batch::SpanLog;
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::join::{CHOICE, EVALUATION_RESULT, OPERATION_DETAILS, message_role};

use crate::attributes::{Attributes, to_content};
use crate::ledger::{Ledger, within};
use crate::limits::Limits;
use crate::mapping::Resource;
use crate::media::Extractor;
use crate::model::{LogRecord, Scope, Span, Value, ValueBudget, to_object};
use crate::notes::Notes;
use crate::scores::{self, ScoreContext};
use crate::sink::{MemoryExhausted, Sink};
use crate::source::Source;
use crate::times::timestamp;
use crate::{Context, DecodeError, facts};

/// Collects the relevant records; the result depends on the order of their times.
pub(crate) struct LogMapper<'m> {
    context: &'m Context,
    pub(crate) ledger: Ledger<'m>,
    n_records: usize,
    kept: Vec<RetainedLog>,
}

struct RetainedLog {
    nanos: u64,
    log: SpanLog,
    /// Of a result of an evaluation, which becomes a score.
    environment: Option<String>,
}

impl<'m> LogMapper<'m> {
    pub(crate) fn new(context: &'m Context, sink: &'m mut dyn Sink) -> Self {
        Self { context, ledger: Ledger::new(&context.limits, sink), n_records: 0, kept: Vec::new() }
    }

    pub(crate) const fn limits(&self) -> &'m Limits {
        &self.context.limits
    }

    /// Reads a record of a number of bytes and keeps it if it is used.
    pub(crate) fn record<'a>(
        &mut self,
        resource: &Resource<'_>,
        n_bytes: usize,
        read: impl FnOnce(&mut ValueBudget, &Limits) -> Result<Option<LogRecord<'a>>, DecodeError>,
    ) -> Result<(), DecodeError> {
        let limits = self.limits();
        self.n_records += 1;
        within(self.n_records, limits.max_spans, "log records")?;
        self.ledger.read(n_bytes)?;
        let mut budget = ValueBudget::new(limits.max_values);
        let Some(record) = read(&mut budget, limits)? else {
            return Ok(());
        };
        self.ledger.map(n_bytes, &budget)?;
        let Some(mut log) = span_log(&record, self.context) else {
            return Ok(());
        };
        self.take_media(&mut log)?;
        let is_score = log.event == EVALUATION_RESULT;
        let environment = is_score.then(|| environment(&record, resource, self.context));
        self.ledger.sink.retain(log.memory())?;
        self.kept.push(RetainedLog { nanos: nanos(&record), log, environment });
        Ok(())
    }

    /// Media leaves the record here: content that is joined later does not pass the mapping of spans.
    fn take_media(&mut self, log: &mut SpanLog) -> Result<(), MemoryExhausted> {
        let mut found = Vec::new();
        let mut extractor = Extractor {
            trace_id: &log.trace_id,
            observation_id: &log.observation_id,
            max_bytes: self.context.limits.max_media_bytes,
            found: &mut found,
        };
        for (key, value) in &mut log.attributes {
            let is_output = log.event == CHOICE || key == "gen_ai.output.messages";
            let field = if is_output { "output" } else { "input" };
            extractor.value(value, field);
        }
        found.into_iter().try_for_each(|media| self.ledger.sink.media(media))
    }

    /// Gives everything to the sink, in the order of time.
    pub(crate) fn finish(mut self) -> Result<(), MemoryExhausted> {
        // Stored times are cut to the microsecond: what is closer together stays in the order of the batch.
        self.kept.sort_by_key(|kept| kept.nanos);
        let mut n_results = HashMap::new();
        for RetainedLog { log, environment, .. } in self.kept {
            let Some(environment) = environment else {
                self.ledger.sink.log(log);
                continue;
            };
            let place = ScoreContext {
                trace_id: &log.trace_id,
                observation_id: &log.observation_id,
                environment: &environment,
            };
            // Several results of one name in one request are distinguished by their index.
            let name = log.attributes.get("gen_ai.evaluation.name");
            let name = name.and_then(|name| name.as_str()).unwrap_or_default();
            let key = (log.trace_id.clone(), log.observation_id.clone(), name.to_owned());
            let index = n_results.entry(key).or_insert(0);
            if let Some(score) = scores::of_event(&place, &log.attributes, *index, log.time) {
                *index += 1;
                self.ledger.sink.score(score)?;
            }
        }
        Ok(())
    }
}

/// The sort key of a record; a record without a time is last.
fn nanos(record: &LogRecord<'_>) -> u64 {
    let mut sent = [record.time_nanos, record.observed_nanos].into_iter();
    sent.find(|nanos| timestamp(*nanos).is_some()).unwrap_or(u64::MAX)
}

fn environment(record: &LogRecord<'_>, resource: &Resource<'_>, context: &Context) -> String {
    let attributes = Attributes::new(&record.attributes.pairs);
    let (span, scope) = (Span::default(), Scope::default());
    let source = Source::new(&span, &attributes, &scope, &resource.attributes, context);
    facts::environment(&source, &mut Notes::default())
}

/// A record that is used: it names a span, and its event is one that feeds observations.
fn span_log(record: &LogRecord<'_>, context: &Context) -> Option<SpanLog> {
    let trace_id = TraceId::new(&record.trace_id.to_hex()?).ok()?;
    let observation_id = ObservationId::new(&record.span_id.to_hex()?).ok()?;
    let event = if record.event_name.is_empty() {
        let named = record.attributes.pairs.iter().rfind(|(key, _)| key == "event.name")?;
        named.1.as_str()?
    } else {
        record.event_name.as_ref()
    };
    let is_used = matches!(event, OPERATION_DETAILS | CHOICE | EVALUATION_RESULT)
        || message_role(event).is_some();
    if !is_used {
        return None;
    }
    // Results of evaluations are plain texts; all else is content, where JSON held as text is JSON.
    let read = match event {
        EVALUATION_RESULT => to_object,
        _ => to_content,
    };
    let mut attributes = read(&record.attributes.pairs);
    if let Some(Value::Map(body)) = &record.body {
        attributes.extend(read(body));
    }
    Some(SpanLog {
        trace_id,
        observation_id,
        time: timestamp(record.time_nanos)
            .or_else(|| timestamp(record.observed_nanos))
            .unwrap_or(context.arrived_at),
        event: event.to_owned(),
        attributes,
    })
}
