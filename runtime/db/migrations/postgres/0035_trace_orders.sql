-- Lists of traces begin with the slowest or the dearest.
CREATE INDEX traces_by_latency ON traces (tenant, latency_us);
CREATE INDEX traces_by_cost ON traces (tenant, total_cost);
