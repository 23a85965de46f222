-- Lists of traces begin with the slowest, the dearest, those with the most tokens or the most errors. Many traces are
-- equal in these: among them the newest come first, and an index holds that order too, so that none of them is sorted.
-- (Its last column is the number of the row, here as in every index.)
DROP INDEX traces_by_latency;
DROP INDEX traces_by_cost;
CREATE INDEX traces_by_latency ON traces (tenant, latency_us, started_at);
CREATE INDEX traces_by_cost ON traces (tenant, total_cost, started_at);
CREATE INDEX traces_by_tokens ON traces (tenant, COALESCE(total_tokens, 0), started_at);
CREATE INDEX traces_by_errors ON traces (tenant, n_error, started_at);
