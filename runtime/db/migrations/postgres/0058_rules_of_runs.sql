-- The rule that scores the results of a run with the evaluators of its experiment, and the run that comparisons start with.
ALTER TABLE server_runs ADD COLUMN rule_id TEXT;
ALTER TABLE server_runs ADD COLUMN baseline_id TEXT;

-- Secrets were kept after the deletion of their runs.
DELETE FROM endpoint_secrets WHERE NOT EXISTS
    (SELECT 1 FROM server_runs r WHERE r.project_id = endpoint_secrets.project_id AND r.experiment_id = endpoint_secrets.id);
