
-- name: insert_operation
-- Whoever took the call's offer has it in hand; a second one finds it there.
INSERT INTO operations (call_id, owner, epoch, reference, begins, looks, faults, next_at, created_at)
VALUES (:call_id, :owner, 1, NULL, 1, 0, 0, clock_ms() + :lease_ms, clock_ms())
ON CONFLICT (call_id) DO NOTHING
RETURNING *

-- name: untaken_operations
-- The first condition is the index's own, word for word.
SELECT * FROM calls WHERE status IN ('waiting', 'pending') AND offered_to IS NULL AND tool IN (each_of(:ids))
ORDER BY id LIMIT :limit

-- name: claim_operation
-- `next_at` is the timer, and while somebody has it in hand the end of its lease.
UPDATE operations SET owner = :owner, epoch = epoch + 1, begins = :begins, next_at = clock_ms() + :lease_ms
WHERE call_id = :call_id AND epoch = :epoch
RETURNING *

-- name: put_off_operation
UPDATE operations SET owner = NULL, reference = COALESCE(:reference, reference), begins = :begins, looks = :looks,
    faults = :faults, next_at = clock_ms() + :pause_ms
WHERE call_id = :call_id AND epoch = :epoch
RETURNING call_id

-- name: delete_operation
DELETE FROM operations WHERE call_id = :call_id RETURNING call_id

-- name: due_operations
-- Those whose time has come, and those whose gateway died with them in hand.
SELECT * FROM operations WHERE next_at <= clock_ms()
    OR (owner IS NOT NULL AND owner NOT IN (SELECT id FROM gateways WHERE dead = 0))
ORDER BY next_at LIMIT :limit

-- name: operations_among
SELECT * FROM operations WHERE call_id IN (each_of(:ids))

-- name: put_way
INSERT INTO ways (call_id, via, config, created_at) VALUES (:call_id, :via, :config, clock_ms())
ON CONFLICT (call_id) DO NOTHING

-- name: get_way
SELECT via, config FROM ways WHERE call_id = :call_id

-- name: prune_ways
DELETE FROM ways WHERE call_id IN (SELECT call_id FROM ways WHERE created_at < :before LIMIT :limit)
