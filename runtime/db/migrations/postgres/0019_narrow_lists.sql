-- Lists of few rows among many: by what is asked for most, newest first, without a look at the others.
-- The environment stands in the index where it is often asked for beside: it is tested without the row.

        UPDATE observations SET name = left(name, 300) WHERE octet_length(name) > 1200;
        UPDATE observations SET user_id = left(user_id, 300) WHERE octet_length(user_id) > 1200;
        UPDATE observations SET session_id = left(session_id, 300) WHERE octet_length(session_id) > 1200;
        UPDATE traces SET name = left(name, 300) WHERE octet_length(name) > 1200;
        UPDATE traces SET release = left(release, 600) WHERE octet_length(release) > 2400;
        UPDATE traces SET version = left(version, 600) WHERE octet_length(version) > 2400;
        UPDATE scores SET name = left(name, 300) WHERE octet_length(name) > 1200;
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
) ;

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

