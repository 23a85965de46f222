-- The experiment of a span that stands for one of its items: what else is known of it stands in `detail`.
-- Few spans have one, so that the two indexes cost the others nothing.
ALTER TABLE observations ADD COLUMN experiment_id TEXT;
UPDATE observations SET experiment_id = json_extract(detail, '$.experiment.id')
 WHERE replace(detail, '"item_root_observation_id":"' || id || '"', '') <> detail
   AND length(json_extract(detail, '$.experiment.id')) BETWEEN 1 AND 400;
DROP INDEX observations_of_experiments;
CREATE INDEX observations_of_experiments ON observations (tenant, started_at)
 WHERE experiment_id IS NOT NULL;
CREATE INDEX observations_by_experiment ON observations (tenant, experiment_id, started_at, ended_at)
 WHERE experiment_id IS NOT NULL;

-- Links of a run by their traces, and pages of all links.
DROP INDEX dataset_run_items_by_time;
CREATE INDEX dataset_run_items_by_time ON dataset_run_items (project_id, created_at, id);
CREATE INDEX dataset_run_items_by_trace ON dataset_run_items (project_id, run_id, trace_id);

-- Pages of the items of all datasets, and items made from one trace.
CREATE INDEX dataset_items_recent ON dataset_items
    (project_id, created_at, id, valid_from, valid_to, is_deleted, status);
CREATE INDEX dataset_items_by_trace ON dataset_items (project_id, source_trace_id)
 WHERE source_trace_id IS NOT NULL;

CREATE INDEX prompts_newest ON prompts (project_id, created_at DESC, name);

-- The newest scores of an experiment.
DROP INDEX scores_by_experiment;
CREATE INDEX scores_by_experiment ON scores (project_id, experiment_id, timestamp, id)
 WHERE experiment_id IS NOT NULL;
