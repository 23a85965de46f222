-- The triggers that keep `trace_marks`, and the marks of the traces that stand. A NUL, which JSON can spell
-- and a text here cannot hold, is the replacement character in a mark.
CREATE FUNCTION trace_marks_of(detail TEXT) RETURNS SETOF TEXT LANGUAGE SQL IMMUTABLE AS $$
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
    SELECT 's' || key FROM members
    UNION
    SELECT 'm' || key || '=' || (value #>> '{}') FROM members
     WHERE (kind IN ('string', 'boolean') OR (kind = 'number' AND value::text ~ '^-?[0-9]{1,18}$'))
       AND length(value #>> '{}') <= 200
$$;
CREATE FUNCTION keep_trace_marks() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.started_at = OLD.started_at
       AND (NEW.detail = OLD.detail OR (
            (NEW.detail::json -> 'tags')::text IS NOT DISTINCT FROM (OLD.detail::json -> 'tags')::text
        AND (NEW.detail::json -> 'metadata')::text IS NOT DISTINCT FROM (OLD.detail::json -> 'metadata')::text))
    THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM trace_marks WHERE tenant = OLD.tenant AND started_at = OLD.started_at
           AND trace = OLD.number AND mark IN (SELECT trace_marks_of(OLD.detail));
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO trace_marks (tenant, mark, started_at, trace)
        SELECT NEW.tenant, mark, NEW.started_at, NEW.number FROM trace_marks_of(NEW.detail) mark
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER trace_marks_added AFTER INSERT ON traces FOR EACH ROW
    WHEN (strpos(NEW.detail, '"tags":') > 0 OR strpos(NEW.detail, '"metadata":') > 0)
    EXECUTE FUNCTION keep_trace_marks();
CREATE TRIGGER trace_marks_removed AFTER DELETE ON traces FOR EACH ROW
    EXECUTE FUNCTION keep_trace_marks();
CREATE TRIGGER trace_marks_changed AFTER UPDATE OF detail, started_at ON traces FOR EACH ROW
    EXECUTE FUNCTION keep_trace_marks();

INSERT INTO trace_marks (tenant, mark, started_at, trace)
SELECT t.tenant, x.mark, t.started_at, t.number FROM traces t, trace_marks_of(t.detail) x (mark);
