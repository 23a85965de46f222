-- Sessions are scored. Of an execution over one the trace is empty.
ALTER TABLE executions ADD COLUMN session_id TEXT;
CREATE INDEX executions_by_session ON executions (project_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX superseded_by_session ON superseded_scores (project_id, session_id) WHERE session_id IS NOT NULL;
-- Of a watch of a session the trace and the observation are empty, of any other the session is.
CREATE TABLE watches_of_targets (
    project_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    observation_id TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    looked_at BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    began_at BIGINT NOT NULL DEFAULT 0,
    waiting TEXT NOT NULL DEFAULT '',
    session_id TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (project_id, trace_id, observation_id, session_id)
) WITHOUT ROWID;
INSERT INTO watches_of_targets
    (project_id, trace_id, observation_id, changed_at, looked_at, due_at, began_at, waiting)
SELECT project_id, trace_id, observation_id, changed_at, looked_at, due_at, began_at, waiting FROM watches;
DROP TABLE watches;
ALTER TABLE watches_of_targets RENAME TO watches;
CREATE INDEX watches_due ON watches (due_at);
