-- The run over a dataset with a name.
CREATE INDEX dataset_runs_by_name ON dataset_runs (project_id, dataset_id, name);
