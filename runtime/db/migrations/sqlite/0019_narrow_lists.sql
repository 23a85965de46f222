-- Lists of few rows among many: by what is asked for most, newest first, without a look at the others.
-- The environment stands in the index where it is often asked for beside: it is tested without the row.

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
) WITHOUT ROWID;

-- The triggers that keep `trace_marks`, and the marks of the traces that stand.
CREATE TRIGGER trace_marks_added AFTER INSERT ON traces
WHEN (instr(NEW.detail, '"tags":') > 0 OR instr(NEW.detail, '"metadata":') > 0)
BEGIN
    INSERT OR IGNORE INTO trace_marks (tenant, mark, started_at, trace)
    SELECT NEW.tenant, 't' || g.value, NEW.started_at, NEW.number
      FROM json_each(NEW.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT NEW.tenant, 's' || m.key, NEW.started_at, NEW.number
      FROM json_each(NEW.detail, '$.metadata') m WHERE length(m.key) <= 200 AND instr(m.key, '=') = 0
    UNION ALL
    SELECT NEW.tenant,
           'm' || m.key || '=' || CASE m.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE m.value END,
           NEW.started_at, NEW.number
      FROM json_each(NEW.detail, '$.metadata') m
     WHERE m.type IN ('text', 'true', 'false', 'integer') AND length(m.key) <= 200
       AND instr(m.key, '=') = 0 AND length(m.value) <= 200;
END;
CREATE TRIGGER trace_marks_removed AFTER DELETE ON traces
WHEN (instr(OLD.detail, '"tags":') > 0 OR instr(OLD.detail, '"metadata":') > 0)
BEGIN
    DELETE FROM trace_marks WHERE (tenant, mark, started_at, trace) IN (
    SELECT OLD.tenant, 't' || g.value, OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT OLD.tenant, 's' || m.key, OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.metadata') m WHERE length(m.key) <= 200 AND instr(m.key, '=') = 0
    UNION ALL
    SELECT OLD.tenant,
           'm' || m.key || '=' || CASE m.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE m.value END,
           OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.metadata') m
     WHERE m.type IN ('text', 'true', 'false', 'integer') AND length(m.key) <= 200
       AND instr(m.key, '=') = 0 AND length(m.value) <= 200);
END;
CREATE TRIGGER trace_marks_changed AFTER UPDATE OF detail, started_at ON traces
WHEN NEW.started_at <> OLD.started_at
  OR json_extract(NEW.detail, '$.tags', '$.metadata') <> json_extract(OLD.detail, '$.tags', '$.metadata')
BEGIN
    DELETE FROM trace_marks WHERE (tenant, mark, started_at, trace) IN (
    SELECT OLD.tenant, 't' || g.value, OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT OLD.tenant, 's' || m.key, OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.metadata') m WHERE length(m.key) <= 200 AND instr(m.key, '=') = 0
    UNION ALL
    SELECT OLD.tenant,
           'm' || m.key || '=' || CASE m.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE m.value END,
           OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.metadata') m
     WHERE m.type IN ('text', 'true', 'false', 'integer') AND length(m.key) <= 200
       AND instr(m.key, '=') = 0 AND length(m.value) <= 200);
    INSERT OR IGNORE INTO trace_marks (tenant, mark, started_at, trace)
    SELECT NEW.tenant, 't' || g.value, NEW.started_at, NEW.number
      FROM json_each(NEW.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT NEW.tenant, 's' || m.key, NEW.started_at, NEW.number
      FROM json_each(NEW.detail, '$.metadata') m WHERE length(m.key) <= 200 AND instr(m.key, '=') = 0
    UNION ALL
    SELECT NEW.tenant,
           'm' || m.key || '=' || CASE m.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE m.value END,
           NEW.started_at, NEW.number
      FROM json_each(NEW.detail, '$.metadata') m
     WHERE m.type IN ('text', 'true', 'false', 'integer') AND length(m.key) <= 200
       AND instr(m.key, '=') = 0 AND length(m.value) <= 200;
END;

INSERT OR IGNORE INTO trace_marks (tenant, mark, started_at, trace)
SELECT o.tenant, o.mark, o.started_at, o.trace FROM (
    SELECT t.tenant, 't' || g.value AS mark, t.started_at, t.number AS trace
      FROM traces t, json_each(t.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT t.tenant, 's' || m.key, t.started_at, t.number
      FROM traces t, json_each(t.detail, '$.metadata') m WHERE length(m.key) <= 200 AND instr(m.key, '=') = 0
    UNION ALL
    SELECT t.tenant,
           'm' || m.key || '=' || CASE m.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE m.value END,
           t.started_at, t.number
      FROM traces t, json_each(t.detail, '$.metadata') m
     WHERE m.type IN ('text', 'true', 'false', 'integer') AND length(m.key) <= 200
       AND instr(m.key, '=') = 0 AND length(m.value) <= 200) o;

