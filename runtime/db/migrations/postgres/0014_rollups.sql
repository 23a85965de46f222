-- Observations added up by hour, kept in the transaction that writes them: what metrics over long ranges
-- read. Times in milliseconds. `n_x` counts the observations that have an x.
CREATE TABLE observation_rollups (
    tenant BIGINT NOT NULL,
    hour BIGINT NOT NULL,
    environment TEXT NOT NULL,
    kind TEXT NOT NULL,
    model TEXT NOT NULL,
    level TEXT NOT NULL,
    n BIGINT NOT NULL,
    n_latency BIGINT NOT NULL,
    sum_latency DOUBLE PRECISION NOT NULL,
    n_first_token BIGINT NOT NULL,
    sum_first_token DOUBLE PRECISION NOT NULL,
    n_input_tokens BIGINT NOT NULL,
    sum_input_tokens DOUBLE PRECISION NOT NULL,
    n_output_tokens BIGINT NOT NULL,
    sum_output_tokens DOUBLE PRECISION NOT NULL,
    n_total_tokens BIGINT NOT NULL,
    sum_total_tokens DOUBLE PRECISION NOT NULL,
    n_input_cost BIGINT NOT NULL,
    sum_input_cost DOUBLE PRECISION NOT NULL,
    n_output_cost BIGINT NOT NULL,
    sum_output_cost DOUBLE PRECISION NOT NULL,
    n_total_cost BIGINT NOT NULL,
    sum_total_cost DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, hour, environment, kind, model, level)
) ;

INSERT INTO observation_rollups (tenant, hour, environment, kind, model, level, n, n_latency, sum_latency, n_first_token, sum_first_token, n_input_tokens, sum_input_tokens, n_output_tokens, sum_output_tokens, n_total_tokens, sum_total_tokens, n_input_cost, sum_input_cost, n_output_cost, sum_output_cost, n_total_cost, sum_total_cost)
SELECT tenant, started_at - (started_at % 3600000000 + 3600000000) % 3600000000, environment, kind,
       COALESCE(model, ''), level, COUNT(*),
       COUNT((ended_at - started_at) / 1000.0), COALESCE(SUM((ended_at - started_at) / 1000.0), 0),
       COUNT((first_token_at - started_at) / 1000.0), COALESCE(SUM((first_token_at - started_at) / 1000.0), 0),
       COUNT(input_tokens), COALESCE(SUM(input_tokens), 0),
       COUNT(output_tokens), COALESCE(SUM(output_tokens), 0),
       COUNT(total_tokens), COALESCE(SUM(total_tokens), 0),
       COUNT(input_cost), COALESCE(SUM(input_cost), 0),
       COUNT(output_cost), COALESCE(SUM(output_cost), 0),
       COUNT(total_cost), COALESCE(SUM(total_cost), 0)
  FROM observations
 GROUP BY 1, 2, 3, 4, 5, 6;
