//! Any bytes, read as either encoding of traces, logs and metrics, become a batch, a trace and a picture.
//! Seed it with `tests/corpus/otlp`.

#![no_main]

use perpend_domain::batch::Batch;
use perpend_domain::fold::fold;
use perpend_domain::join::join_logs;
use perpend_domain::pricing::PriceTable;
use perpend_otlp::{Context, Encoding, check_metrics, read_logs, read_traces, respond, show};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let context = Context::default();
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let _checked = check_metrics(bytes, encoding);
        let (mut logs, mut batch) = (Batch::default(), Batch::default());
        let _read = read_logs(bytes, encoding, &context, &mut logs);
        let Ok(taken) = read_traces(bytes, encoding, &context, &mut batch) else {
            continue;
        };
        let _response = respond::export_response(&taken, encoding);
        let mut observations = batch.observations;
        for observation in &mut observations {
            join_logs(observation, &logs.logs);
            PriceTable::built_in().apply(observation);
        }
        // One version of each observation of one trace, as a store would hold them.
        observations.sort_by(|a, b| (&a.trace_id, &a.id).cmp(&(&b.trace_id, &b.id)));
        let first = observations.first().map(|o| o.trace_id.clone());
        observations.retain(|o| Some(&o.trace_id) == first.as_ref());
        observations.dedup_by(|b, a| a.trace_id == b.trace_id && a.id == b.id);
        let forward = fold(&observations);
        let _text = show::tree(&observations, forward.as_slice(), true);
        let _value = show::json(&observations, forward.as_slice());
        observations.reverse();
        assert_eq!(forward, fold(&observations));
    }
});
