-- The environment of its trace stands beside each mark: a list of traces with a mark, which leaves environments out, is
-- counted without a look at the traces.
ALTER TABLE trace_marks ADD COLUMN environment TEXT NOT NULL DEFAULT '';
UPDATE trace_marks SET environment = t.environment FROM traces t WHERE t.number = trace_marks.trace;

DROP TRIGGER trace_marks_added;
CREATE TRIGGER trace_marks_added AFTER INSERT ON traces
WHEN (instr(NEW.detail, '"tags":') > 0 OR instr(NEW.detail, '"metadata":') > 0)
BEGIN
    INSERT OR IGNORE INTO trace_marks (tenant, mark, started_at, trace, environment)
    SELECT NEW.tenant, 't' || g.value, NEW.started_at, NEW.number, NEW.environment
      FROM json_each(NEW.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT NEW.tenant, 's' || m.key, NEW.started_at, NEW.number, NEW.environment
      FROM json_each(NEW.detail, '$.metadata') m WHERE length(m.key) <= 200 AND instr(m.key, '=') = 0
    UNION ALL
    SELECT NEW.tenant,
           'm' || m.key || '=' || CASE m.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE m.value END,
           NEW.started_at, NEW.number, NEW.environment
      FROM json_each(NEW.detail, '$.metadata') m
     WHERE m.type IN ('text', 'true', 'false', 'integer') AND length(m.key) <= 200
       AND instr(m.key, '=') = 0 AND length(m.value) <= 200;
END;
DROP TRIGGER trace_marks_changed;
CREATE TRIGGER trace_marks_changed AFTER UPDATE OF detail, started_at, environment ON traces
WHEN NEW.started_at <> OLD.started_at OR NEW.environment <> OLD.environment
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
    INSERT OR IGNORE INTO trace_marks (tenant, mark, started_at, trace, environment)
    SELECT NEW.tenant, 't' || g.value, NEW.started_at, NEW.number, NEW.environment
      FROM json_each(NEW.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT NEW.tenant, 's' || m.key, NEW.started_at, NEW.number, NEW.environment
      FROM json_each(NEW.detail, '$.metadata') m WHERE length(m.key) <= 200 AND instr(m.key, '=') = 0
    UNION ALL
    SELECT NEW.tenant,
           'm' || m.key || '=' || CASE m.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE m.value END,
           NEW.started_at, NEW.number, NEW.environment
      FROM json_each(NEW.detail, '$.metadata') m
     WHERE m.type IN ('text', 'true', 'false', 'integer') AND length(m.key) <= 200
       AND instr(m.key, '=') = 0 AND length(m.value) <= 200;
END;
