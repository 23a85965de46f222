-- The steps of a trace, its models and its prompts are told with the trace, and are marks beside it (0019): kKIND,
-- oMODEL and pPROMPT. `steps` of the detail holds them as they are.
DROP TRIGGER trace_marks_added ON traces;
DROP TRIGGER trace_marks_changed ON traces;

-- The observation that holds the record of a trace is no step of it.
UPDATE traces
   SET detail = CASE detail WHEN '{}' THEN '{' ELSE left(detail, -1) || ',' END || '"steps":' || s.steps || '}'
  FROM (SELECT trace, json_agg(mark ORDER BY mark COLLATE "C")::text AS steps
          FROM (SELECT trace, mark,
                       ROW_NUMBER() OVER (PARTITION BY trace, left(mark, 1) ORDER BY mark COLLATE "C") AS place
                  FROM (SELECT o.trace, 'k' || o.kind AS mark FROM observations o JOIN traces t ON t.number = o.trace
                         WHERE o.id <> 't-' || t.trace_id
                         UNION
                        SELECT o.trace, 'o' || o.model FROM observations o JOIN traces t ON t.number = o.trace
                         WHERE o.model <> '' AND o.id <> 't-' || t.trace_id
                         UNION
                        SELECT o.trace, 'p' || o.prompt_name FROM observations o JOIN traces t ON t.number = o.trace
                         WHERE o.prompt_name <> '' AND o.id <> 't-' || t.trace_id) every) placed
         WHERE place <= 100
         GROUP BY trace) s
 WHERE traces.number = s.trace;

CREATE OR REPLACE FUNCTION trace_marks_of(detail TEXT) RETURNS SETOF TEXT LANGUAGE SQL IMMUTABLE AS $$
    WITH told AS (SELECT replace(detail, '\u0000', '\ufffd')::json AS value),
    members AS (
        SELECT m.key, m.value, json_typeof(m.value) AS kind
          FROM told, json_each(CASE json_typeof(told.value -> 'metadata')
                               WHEN 'object' THEN told.value -> 'metadata' ELSE '{}' END) m
         WHERE length(m.key) <= 200 AND strpos(m.key, '=') = 0)
    SELECT 't' || g.value
      FROM told, json_array_elements_text(CASE json_typeof(told.value -> 'tags')
                                          WHEN 'array' THEN told.value -> 'tags' ELSE '[]' END) g
     WHERE length(g.value) <= 200
    UNION
    SELECT g.value
      FROM told, json_array_elements_text(CASE json_typeof(told.value -> 'steps')
                                          WHEN 'array' THEN told.value -> 'steps' ELSE '[]' END) g
     WHERE length(g.value) <= 201
    UNION
    SELECT 's' || key FROM members
    UNION
    SELECT 'm' || key || '=' || (value #>> '{}') FROM members
     WHERE (kind IN ('string', 'boolean') OR (kind = 'number' AND value::text ~ '^-?[0-9]{1,18}$'))
       AND length(value #>> '{}') <= 200
$$;
CREATE OR REPLACE FUNCTION keep_trace_marks() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.started_at = OLD.started_at AND NEW.environment = OLD.environment
       AND (NEW.detail = OLD.detail OR (
            (NEW.detail::json -> 'tags')::text IS NOT DISTINCT FROM (OLD.detail::json -> 'tags')::text
        AND (NEW.detail::json -> 'steps')::text IS NOT DISTINCT FROM (OLD.detail::json -> 'steps')::text
        AND (NEW.detail::json -> 'metadata')::text IS NOT DISTINCT FROM (OLD.detail::json -> 'metadata')::text))
    THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM trace_marks WHERE tenant = OLD.tenant AND started_at = OLD.started_at
           AND trace = OLD.number AND mark IN (SELECT trace_marks_of(OLD.detail));
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO trace_marks (tenant, mark, started_at, trace, environment)
        SELECT NEW.tenant, mark, NEW.started_at, NEW.number, NEW.environment FROM trace_marks_of(NEW.detail) mark
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER trace_marks_added AFTER INSERT ON traces FOR EACH ROW
    EXECUTE FUNCTION keep_trace_marks();
CREATE TRIGGER trace_marks_changed AFTER UPDATE OF detail, started_at, environment ON traces FOR EACH ROW
    EXECUTE FUNCTION keep_trace_marks();

INSERT INTO trace_marks (tenant, mark, started_at, trace, environment)
SELECT t.tenant, x.mark, t.started_at, t.number, t.environment FROM traces t, trace_marks_of(t.detail) x (mark)
    ON CONFLICT DO NOTHING;
