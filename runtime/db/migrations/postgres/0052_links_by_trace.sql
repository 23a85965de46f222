-- Linked traces, for the rules of experiments.
CREATE INDEX dataset_run_items_of_traces ON dataset_run_items (project_id, trace_id);
