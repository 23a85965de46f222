//! Log records that belong to spans (otlp.md 2.17).

use std::rc::Rc;

use perpend_domain::batch::{Batch, SpanLog};
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::join::{CHOICE, EVALUATION_RESULT, OPERATION_DETAILS, message_role};

use crate::attributes::{Attributes, to_content};
use crate::mapping::Source;
use crate::media::Extractor;
use crate::model::{LogRecord, Scope, Span, Value, to_object};
use crate::scores::{self, Place};
use crate::times::timestamp;
use crate::{Context, LogsRequest, facts};

/// The records of a log request that feed observations, and the scores that evaluation events make.
/// Every other record is dropped.
#[must_use]
pub fn map_logs(request: &LogsRequest<'_>, context: &Context) -> Batch {
    let mut batch = Batch::default();
    let mut records = Vec::new();
    for resource in &request.resources {
        let attributes = Attributes::new(&resource.attributes, context.limits.max_attributes);
        let attributes = Rc::new(attributes);
        records.extend(resource.records.iter().map(|r| (Rc::clone(&attributes), r)));
    }
    // Stored times are cut to the microsecond: what is closer together stays in the order of the batch.
    records.sort_by_key(|(_, record)| nanos(record));
    for (attributes, record) in records {
        if let Some(mut log) = span_log(record, context) {
            take_media(&mut log, context, &mut batch);
            keep(log, record, &attributes, context, &mut batch);
        }
    }
    batch
}

/// The time that a record is ordered by; without one it comes last, as what arrives now.
fn nanos(record: &LogRecord<'_>) -> u64 {
    let mut sent = [record.time_nanos, record.observed_nanos].into_iter();
    sent.find(|nanos| timestamp(*nanos).is_some())
        .unwrap_or(u64::MAX)
}

/// Media leaves the record here: content that is joined later does not pass the mapping of spans.
fn take_media(log: &mut SpanLog, context: &Context, batch: &mut Batch) {
    let mut extractor = Extractor {
        trace_id: &log.trace_id,
        observation_id: &log.observation_id,
        max_bytes: context.limits.max_media_bytes,
        found: &mut batch.media,
    };
    for (key, value) in &mut log.attributes {
        let is_output = log.event == CHOICE || key == "gen_ai.output.messages";
        let field = if is_output { "output" } else { "input" };
        extractor.value(value, field);
    }
}

fn keep(
    log: SpanLog,
    record: &LogRecord<'_>,
    resource: &Attributes<'_>,
    context: &Context,
    batch: &mut Batch,
) {
    if log.event != EVALUATION_RESULT {
        batch.logs.push(log);
        return;
    }
    let attributes = Attributes::new(&record.attributes, context.limits.max_attributes);
    let (span, scope) = (Span::default(), Scope::default());
    let source = Source::new(&span, &attributes, &scope, resource, context);
    let environment = facts::environment(&source);
    let place = Place {
        trace_id: &log.trace_id,
        observation_id: &log.observation_id,
        environment: &environment,
    };
    // Several results of one name in one request are told apart by their place among those.
    let index = batch
        .scores
        .iter()
        .filter(|score| {
            Some(score.name.as_str())
                == log
                    .attributes
                    .get("gen_ai.evaluation.name")
                    .and_then(|n| n.as_str())
                && score.subject
                    == perpend_domain::score::Subject::Observation(
                        log.trace_id.clone(),
                        log.observation_id.clone(),
                    )
        })
        .count();
    batch
        .scores
        .extend(scores::of_event(&place, &log.attributes, index, log.time));
}

/// A record that is used: it names a span, and its event is one that feeds observations.
fn span_log(record: &LogRecord<'_>, context: &Context) -> Option<SpanLog> {
    let trace_id = TraceId::new(&record.trace_id.to_hex()?).ok()?;
    let observation_id = ObservationId::new(&record.span_id.to_hex()?).ok()?;
    let event = if record.event_name.is_empty() {
        let named = record
            .attributes
            .iter()
            .rfind(|(key, _)| key == "event.name")?;
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
    let mut attributes = read(&record.attributes);
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
