-- How many traces a project has of each environment, kept by the triggers below.
CREATE TABLE trace_counts (
    tenant BIGINT NOT NULL,
    environment TEXT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (tenant, environment)
) WITHOUT ROWID;
CREATE TRIGGER trace_counts_added AFTER INSERT ON traces
BEGIN
    INSERT INTO trace_counts (tenant, environment, n) VALUES (NEW.tenant, NEW.environment, 1)
        ON CONFLICT (tenant, environment) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER trace_counts_removed AFTER DELETE ON traces
BEGIN
    UPDATE trace_counts SET n = n - 1 WHERE tenant = OLD.tenant AND environment = OLD.environment;
END;
CREATE TRIGGER trace_counts_moved AFTER UPDATE OF environment ON traces
WHEN NEW.environment <> OLD.environment
BEGIN
    UPDATE trace_counts SET n = n - 1 WHERE tenant = OLD.tenant AND environment = OLD.environment;
    INSERT INTO trace_counts (tenant, environment, n) VALUES (NEW.tenant, NEW.environment, 1)
        ON CONFLICT (tenant, environment) DO UPDATE SET n = n + 1;
END;
INSERT INTO trace_counts (tenant, environment, n)
SELECT tenant, environment, COUNT(*) FROM traces GROUP BY tenant, environment;
