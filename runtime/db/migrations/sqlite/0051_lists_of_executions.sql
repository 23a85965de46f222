-- The list of executions, newest first; failed ones are few and have an index of their own.
CREATE INDEX executions_by_time ON executions (project_id, created_at, id);
CREATE INDEX executions_failed_by_time ON executions (project_id, created_at, id) WHERE state = 6;
