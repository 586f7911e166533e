-- name: insert_large_result
-- In the transaction that settles the call, and only if that won; a second insert is a fault.
INSERT INTO large_results (call_id, body, size, digest, created_at)
VALUES (:call_id, :body, :size, :digest, clock_ms())

-- name: get_large_result
SELECT body FROM large_results WHERE call_id = :call_id

-- name: part_of_large_result
-- `count` bytes from number `first` on; the first byte has the number 1.
SELECT size, digest, substr(body, CAST(:first AS INTEGER), CAST(:count AS INTEGER)) AS part
FROM large_results WHERE call_id = :call_id

-- name: prune_large_results
DELETE FROM large_results WHERE call_id IN (each_of(:ids))

-- name: put_trace
INSERT INTO call_traces (call_id, trace) VALUES (:call_id, :trace)
ON CONFLICT (call_id) DO UPDATE SET trace = excluded.trace

-- name: get_trace
SELECT trace FROM call_traces WHERE call_id = :call_id

-- name: prune_traces
DELETE FROM call_traces WHERE call_id IN (each_of(:ids))
