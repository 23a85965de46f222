-- The time since which a dataset is archived, and the run that its other runs are compared with.
ALTER TABLE datasets ADD COLUMN archived_at BIGINT;
ALTER TABLE datasets ADD COLUMN baseline_run_id TEXT;
