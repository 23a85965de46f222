-- The environment of its trace stands beside each mark: a list of traces with a mark, which leaves environments out, is
-- counted without a look at the traces.
ALTER TABLE trace_marks ADD COLUMN environment TEXT NOT NULL DEFAULT '';
UPDATE trace_marks SET environment = t.environment FROM traces t WHERE t.number = trace_marks.trace;

CREATE OR REPLACE FUNCTION keep_trace_marks() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.started_at = OLD.started_at AND NEW.environment = OLD.environment
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
        INSERT INTO trace_marks (tenant, mark, started_at, trace, environment)
        SELECT NEW.tenant, mark, NEW.started_at, NEW.number, NEW.environment FROM trace_marks_of(NEW.detail) mark
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$$;
DROP TRIGGER trace_marks_changed ON traces;
CREATE TRIGGER trace_marks_changed AFTER UPDATE OF detail, started_at, environment ON traces FOR EACH ROW
    EXECUTE FUNCTION keep_trace_marks();
