-- name: rollup_progress
SELECT COALESCE((SELECT next_at FROM rollup_progress WHERE id = 'calls'), 0) AS next_at, clock_ms() AS now

-- name: first_end
-- When the first of what is not rolled up yet ended.
SELECT MIN(ended) AS ended FROM (
    SELECT MIN(finished_at) AS ended FROM calls WHERE finished_at IS NOT NULL AND finished_at >= :since
    UNION ALL
    SELECT MIN(finished_at) AS ended FROM runs WHERE finished_at IS NOT NULL AND finished_at >= :since) AS ends

-- name: tokens_of_ended_runs
SELECT finished_at - finished_at % 60000 AS start_at, principal, agent,
    CAST(SUM(input_tokens) AS BIGINT) AS input_tokens, CAST(SUM(output_tokens) AS BIGINT) AS output_tokens
FROM runs WHERE finished_at IS NOT NULL AND finished_at >= :since AND finished_at < :until
    AND input_tokens + output_tokens > 0
GROUP BY 1, 2, 3

-- name: advance_rollups
-- Of several gateways, one writes a minute.
INSERT INTO rollup_progress (id, next_at) VALUES ('calls', :next_at)
ON CONFLICT (id) DO UPDATE SET next_at = excluded.next_at WHERE rollup_progress.next_at = :seen
RETURNING next_at

-- name: insert_rollup
INSERT INTO rollups (span, dimension, start_at, name, source, outcome, calls, durations, input_tokens, output_tokens)
VALUES (:span, :dimension, :start_at, :name, :source, :outcome, :calls, :durations, :input_tokens, :output_tokens)

-- name: rollups_of_all
SELECT * FROM rollups WHERE span = :span AND dimension = 'all' AND start_at >= :since AND start_at < :until

-- name: rollups_of_name
SELECT * FROM rollups WHERE span = :span AND dimension = :dimension AND start_at >= :since AND start_at < :until
    AND name = :name

-- name: rollups_by_name
SELECT * FROM rollups WHERE span = :span AND dimension IN ('agent', 'principal', 'source', 'tool')
    AND start_at >= :since AND start_at < :until

-- name: prune_rollups
DELETE FROM rollups WHERE span = :span AND dimension IN ('agent', 'all', 'principal', 'source', 'tool')
    AND start_at < :before
