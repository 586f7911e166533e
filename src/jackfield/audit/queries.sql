-- name: insert_audit_chain
INSERT INTO audit_chains (id, length, head, head_at, linked, cut)
VALUES (:audit_gateway, 0, '', clock_ms(), 0, 0) RETURNING head_at AS now

-- name: lock_audit_chain
SELECT id, length, head, head_at, cut, clock_ms() AS now FROM audit_chains WHERE id = :audit_gateway FOR UPDATE

-- name: lock_unlinked_audit_chains
SELECT id, length, head FROM audit_chains WHERE length > linked ORDER BY id FOR UPDATE

-- name: link_audit_chain
UPDATE audit_chains SET linked = :length WHERE id = :audit_gateway

-- name: insert_audit
INSERT INTO audit (gateway, number, id, at, actor, action, subject, before, after, hash)
VALUES (:gateway, :number, :id, :at, :actor, :action, :subject, :before, :after, :hash)

-- name: move_audit_head
UPDATE audit_chains SET length = :length, head = :head, head_at = :at WHERE id = :audit_gateway

-- name: audit_chain_ids
SELECT id FROM audit_chains WHERE id > :after ORDER BY id LIMIT :limit

-- name: audit_of_chain
SELECT * FROM audit WHERE gateway = :gateway AND number > :after ORDER BY number LIMIT :limit

-- name: audit_chain
SELECT id, length, head, cut, cut_hash, cut_at, signed_by, signature FROM audit_chains WHERE id = :gateway

-- name: old_audit_chain
-- A chain's first entry has the key of its signatures, so it stays as long as the chain.
SELECT gateway FROM audit WHERE id < :before_id AND number > 1 ORDER BY id LIMIT 1

-- name: last_old_audit
SELECT number, hash FROM audit
WHERE gateway = :gateway AND number > 1 AND number <= :most AND at < :before ORDER BY number DESC LIMIT 1

-- name: next_audit_number
SELECT number FROM audit WHERE gateway = :gateway AND number > 1 ORDER BY number LIMIT 1

-- name: cut_audit_chain
UPDATE audit_chains SET cut = :number, cut_hash = :hash, cut_at = :at, signed_by = :signed_by, signature = :signature
WHERE id = :audit_gateway

-- name: delete_audit_up_to
DELETE FROM audit WHERE gateway = :gateway AND number > 1 AND number <= :number

-- name: finished_audit_chain
-- A chain of a gateway that is gone, with only its first entry left, which signed nothing that is still needed.
SELECT id FROM audit_chains WHERE head_at < :before AND (cut = length OR length = 1)
    AND EXISTS (SELECT 1 FROM audit WHERE audit.gateway = audit_chains.id AND audit.number = 1)
    AND NOT EXISTS (SELECT 1 FROM gateways WHERE gateways.id = audit_chains.id AND gateways.dead = 0)
    AND NOT EXISTS (SELECT 1 FROM audit_chains AS signed
                    WHERE signed.signed_by = audit_chains.id AND signed.id <> audit_chains.id)
ORDER BY id LIMIT 1

-- name: delete_first_audit
DELETE FROM audit WHERE gateway = :gateway AND number = 1

-- name: delete_empty_audit_chains
-- Nothing is left of it, and no chain names it that has its first entry.
DELETE FROM audit_chains WHERE cut = length AND head_at < :before
    AND NOT EXISTS (SELECT 1 FROM gateways WHERE gateways.id = audit_chains.id AND gateways.dead = 0)
    AND NOT EXISTS (SELECT 1 FROM audit WHERE audit.gateway = audit_chains.id)
    AND NOT EXISTS (SELECT 1 FROM audit WHERE audit.number = 1 AND audit.after LIKE '%' || audit_chains.id || '%')

-- name: audit_heads
SELECT id, length, head FROM audit_chains WHERE length > linked ORDER BY id
