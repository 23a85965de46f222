-- The turns of a session are counted off in its index. Sums are read from the rows here: beside the ids of users and of
-- sessions their figures could outgrow what an entry of an index holds.
DROP INDEX traces_by_session;
CREATE INDEX traces_by_session ON traces (tenant, session_id, started_at, trace_id, environment)
    WHERE session_id IS NOT NULL;
