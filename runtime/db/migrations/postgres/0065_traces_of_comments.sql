-- The trace of a commented observation; ids of observations are unique in a trace only. NULL: unknown.
ALTER TABLE comments ADD COLUMN trace_id TEXT;

-- Estimated cost of a target when the backtest was created. NULL: unknown.
ALTER TABLE backtests ADD COLUMN usd_per_target DOUBLE PRECISION;
