-- What the traces of a session or of a user say together is summed from an index alone, and the turns of a session are
-- counted off in it: a session of 20,000 traces is opened without a look at their rows.
DROP INDEX traces_by_session;
CREATE INDEX traces_by_session ON traces (tenant, session_id, started_at, trace_id, environment, user_id, latency_us,
    n_observations, n_error, total_tokens, total_cost, n_priced, n_unpriced)
    WHERE session_id IS NOT NULL;
DROP INDEX traces_by_user;
CREATE INDEX traces_by_user ON traces (tenant, user_id, started_at, environment, session_id, latency_us,
    n_observations, n_error, total_tokens, total_cost, n_priced, n_unpriced)
    WHERE user_id IS NOT NULL;
