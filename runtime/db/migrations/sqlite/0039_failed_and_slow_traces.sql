-- Traces with errors are listed and counted by their time; slow ones are counted without a look at their rows, which
-- tell only the environment.
CREATE INDEX traces_failed ON traces (tenant, started_at, environment, n_error) WHERE n_error > 0;
DROP INDEX traces_by_latency;
CREATE INDEX traces_by_latency ON traces (tenant, latency_us, started_at, number, environment);
