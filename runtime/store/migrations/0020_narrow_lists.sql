-- Lists of few rows among many: by what is asked for most, newest first, without a look at the others.
-- The environment stands in the index where it is often asked for beside: it is tested without the row.
{{cut_long}}
DROP INDEX traces_by_user;
DROP INDEX traces_by_name;
DROP INDEX traces_by_session;
CREATE INDEX traces_by_user ON traces (tenant, user_id, started_at, environment) WHERE user_id IS NOT NULL;
CREATE INDEX traces_by_name ON traces (tenant, name, started_at, environment) WHERE name IS NOT NULL;
CREATE INDEX traces_by_session ON traces (tenant, session_id, started_at, environment)
 WHERE session_id IS NOT NULL;
CREATE INDEX traces_by_environment ON traces (tenant, environment, started_at);
CREATE INDEX traces_by_release ON traces (tenant, release, started_at) WHERE release IS NOT NULL;
CREATE INDEX traces_by_version ON traces (tenant, version, started_at) WHERE version IS NOT NULL;

CREATE INDEX observations_by_name ON observations (tenant, name, started_at, id);
CREATE INDEX observations_by_user ON observations (tenant, user_id, started_at)
 WHERE user_id IS NOT NULL;
CREATE INDEX observations_by_session ON observations (tenant, session_id, started_at)
 WHERE session_id IS NOT NULL;

-- A numbered page counts what it is a page of: from the index alone.
DROP INDEX scores_newest;
CREATE INDEX scores_newest ON scores (project_id, timestamp, id, environment);
CREATE INDEX scores_by_name ON scores (project_id, name, timestamp, id, environment);

-- Tags and metadata of traces, one row each, kept by the triggers below:
--   tTAG, and for a member of the metadata sKEY (it is set) and mKEY=TEXT.
-- Texts over 200 characters and keys with `=` have none; whoever asks for those looks at the traces.
CREATE TABLE trace_marks (
    tenant BIGINT NOT NULL,
    mark TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    trace BIGINT NOT NULL,
    PRIMARY KEY (tenant, mark, started_at, trace)
) {{without_rowid}};

{{trace_marks}}
