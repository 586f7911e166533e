-- name: insert_gateway
INSERT INTO gateways (id, alive_until) VALUES (:id, clock_ms() + 15000)

-- name: bury_other_gateways
-- A database of one process: whoever else is written here is gone.
UPDATE gateways SET dead = 1 WHERE id <> :id

-- name: beat
UPDATE gateways SET alive_until = clock_ms() + 15000 WHERE id = :id AND dead = 0 RETURNING id

-- name: put_gateway_config
UPDATE gateways SET config = :config WHERE id = :id

-- name: other_gateway_configs
SELECT id, config FROM gateways
WHERE id <> :id AND dead = 0 AND alive_until > clock_ms() AND config IS NOT NULL ORDER BY id

-- name: bury_gateway
UPDATE gateways SET dead = 1 WHERE id = :id

-- name: bury_late_gateways
-- One whose row is locked is beating just now, or being buried by somebody else.
UPDATE gateways SET dead = 1 WHERE id IN (
    SELECT id FROM gateways WHERE alive_until < clock_ms() AND dead = 0 AND id <> :besides
    ORDER BY id FOR UPDATE SKIP LOCKED)
RETURNING id

-- name: prune_gateways
DELETE FROM gateways WHERE dead = 1 AND alive_until < :before
    AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.owner = gateways.id AND calls.status = 'running')

-- name: ping
SELECT clock_ms() AS now

-- name: put_shared_value
INSERT INTO shared_values (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING

-- name: get_shared_value
SELECT value FROM shared_values WHERE name = :name
