-- The steps of a trace, its models and its prompts are told with the trace, and are marks beside it (0019): kKIND,
-- oMODEL and pPROMPT. `steps` of the detail holds them as they are.
DROP TRIGGER trace_marks_added;
DROP TRIGGER trace_marks_changed;
DROP TRIGGER trace_marks_removed;

-- The observation that holds the record of a trace is no step of it.
UPDATE traces
   SET detail = CASE detail WHEN '{}' THEN '{' ELSE substr(detail, 1, length(detail) - 1) || ',' END
                || '"steps":' || s.steps || '}'
  FROM (SELECT trace, json_group_array(mark ORDER BY mark) AS steps
          FROM (SELECT trace, mark, ROW_NUMBER() OVER (PARTITION BY trace, substr(mark, 1, 1) ORDER BY mark) AS place
                  FROM (SELECT o.trace, 'k' || o.kind AS mark FROM observations o JOIN traces t ON t.number = o.trace
                         WHERE o.id <> 't-' || t.trace_id
                         UNION
                        SELECT o.trace, 'o' || o.model FROM observations o JOIN traces t ON t.number = o.trace
                         WHERE o.model <> '' AND o.id <> 't-' || t.trace_id
                         UNION
                        SELECT o.trace, 'p' || o.prompt_name FROM observations o JOIN traces t ON t.number = o.trace
                         WHERE o.prompt_name <> '' AND o.id <> 't-' || t.trace_id))
         WHERE place <= 100
         GROUP BY trace) s
 WHERE traces.number = s.trace;

INSERT OR IGNORE INTO trace_marks (tenant, mark, started_at, trace, environment)
SELECT t.tenant, g.value, t.started_at, t.number, t.environment
  FROM traces t, json_each(t.detail, '$.steps') g WHERE length(g.value) <= 201;

CREATE TRIGGER trace_marks_added AFTER INSERT ON traces
BEGIN
    INSERT OR IGNORE INTO trace_marks (tenant, mark, started_at, trace, environment)
    SELECT NEW.tenant, 't' || g.value, NEW.started_at, NEW.number, NEW.environment
      FROM json_each(NEW.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT NEW.tenant, g.value, NEW.started_at, NEW.number, NEW.environment
      FROM json_each(NEW.detail, '$.steps') g WHERE length(g.value) <= 201
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
CREATE TRIGGER trace_marks_removed AFTER DELETE ON traces
BEGIN
    DELETE FROM trace_marks WHERE (tenant, mark, started_at, trace) IN (
    SELECT OLD.tenant, 't' || g.value, OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT OLD.tenant, g.value, OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.steps') g WHERE length(g.value) <= 201
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
CREATE TRIGGER trace_marks_changed AFTER UPDATE OF detail, started_at, environment ON traces
WHEN NEW.started_at <> OLD.started_at OR NEW.environment <> OLD.environment
  OR json_extract(NEW.detail, '$.tags', '$.metadata', '$.steps')
     <> json_extract(OLD.detail, '$.tags', '$.metadata', '$.steps')
BEGIN
    DELETE FROM trace_marks WHERE (tenant, mark, started_at, trace) IN (
    SELECT OLD.tenant, 't' || g.value, OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.tags') g WHERE length(g.value) <= 200
    UNION ALL
    SELECT OLD.tenant, g.value, OLD.started_at, OLD.number
      FROM json_each(OLD.detail, '$.steps') g WHERE length(g.value) <= 201
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
    SELECT NEW.tenant, g.value, NEW.started_at, NEW.number, NEW.environment
      FROM json_each(NEW.detail, '$.steps') g WHERE length(g.value) <= 201
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
