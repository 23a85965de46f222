-- How many traces a project has of each environment: the sum of these rows, which the triggers below add.
CREATE TABLE trace_counts (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant BIGINT NOT NULL,
    environment TEXT NOT NULL,
    n BIGINT NOT NULL
);
CREATE INDEX trace_counts_of ON trace_counts (tenant, environment);

-- One row for each environment takes the place of those that nobody else holds: writers wait for no other, and few rows
-- stand.
CREATE FUNCTION count_traces() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    WITH told AS (
        SELECT tenant, environment, COUNT(*) * CASE TG_OP WHEN 'DELETE' THEN -1 ELSE 1 END AS n
          FROM counted GROUP BY tenant, environment),
    taken AS (
        DELETE FROM trace_counts WHERE seq IN (
            SELECT c.seq FROM trace_counts c JOIN told USING (tenant, environment) FOR UPDATE OF c SKIP LOCKED)
        RETURNING tenant, environment, n)
    INSERT INTO trace_counts (tenant, environment, n)
    SELECT tenant, environment, SUM(n)
      FROM (SELECT * FROM told UNION ALL SELECT * FROM taken) x GROUP BY tenant, environment;
    RETURN NULL;
END
$$;
CREATE FUNCTION move_count() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trace_counts (tenant, environment, n)
    VALUES (OLD.tenant, OLD.environment, -1), (NEW.tenant, NEW.environment, 1);
    RETURN NULL;
END
$$;
CREATE TRIGGER trace_counts_added AFTER INSERT ON traces REFERENCING NEW TABLE AS counted
    FOR EACH STATEMENT EXECUTE FUNCTION count_traces();
CREATE TRIGGER trace_counts_removed AFTER DELETE ON traces REFERENCING OLD TABLE AS counted
    FOR EACH STATEMENT EXECUTE FUNCTION count_traces();
CREATE TRIGGER trace_counts_moved AFTER UPDATE OF environment ON traces FOR EACH ROW
    WHEN (NEW.environment <> OLD.environment) EXECUTE FUNCTION move_count();
INSERT INTO trace_counts (tenant, environment, n)
SELECT tenant, environment, COUNT(*) FROM traces GROUP BY tenant, environment;
