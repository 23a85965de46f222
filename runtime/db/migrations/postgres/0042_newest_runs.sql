-- The newest runs over any dataset.
CREATE INDEX dataset_runs_newest_of_all ON dataset_runs (project_id, created_at, id);
