-- Sessions are scored. Of an execution over one the trace is empty.
ALTER TABLE executions ADD COLUMN session_id TEXT;
CREATE INDEX executions_by_session ON executions (project_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX superseded_by_session ON superseded_scores (project_id, session_id) WHERE session_id IS NOT NULL;
-- Of a watch of a session the trace and the observation are empty, of any other the session is.
ALTER TABLE watches ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE watches DROP CONSTRAINT watches_pkey;
ALTER TABLE watches ADD PRIMARY KEY (project_id, trace_id, observation_id, session_id);
