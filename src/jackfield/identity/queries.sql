-- name: put_login
INSERT INTO logins (digest, principal, key_digest, expires_at)
VALUES (:digest, :principal, :key_digest, clock_ms() + :lifetime_ms)

-- name: get_login
SELECT principal, key_digest FROM logins WHERE digest = :digest AND expires_at > clock_ms()

-- name: delete_login
DELETE FROM logins WHERE digest = :digest

-- name: prune_logins
DELETE FROM logins WHERE digest IN (SELECT digest FROM logins WHERE expires_at < clock_ms() LIMIT :limit)

-- name: insert_key
INSERT INTO keys (name, digest, rights, expires_at, created_at, created_by)
VALUES (:name, :digest, :rights, CASE WHEN CAST(:lasts_ms AS BIGINT) >= 0 THEN clock_ms() + :lasts_ms END,
    clock_ms(), :created_by)
ON CONFLICT DO NOTHING
RETURNING *

-- name: rotate_key
UPDATE keys SET digest = :digest,
    old_digest = CASE WHEN CAST(:grace_ms AS BIGINT) > 0 THEN digest END,
    old_until = CASE WHEN CAST(:grace_ms AS BIGINT) > 0 THEN clock_ms() + :grace_ms END,
    rotated_at = clock_ms()
WHERE name = :name
RETURNING *

-- name: delete_key
DELETE FROM keys WHERE name = :name
RETURNING name

-- name: all_keys
SELECT * FROM keys ORDER BY name

-- name: put_sealed
INSERT INTO vault (kind, id, key_id, sealed, updated_at) VALUES (:kind, :id, :key_id, :sealed, clock_ms())
ON CONFLICT (kind, id) DO UPDATE SET key_id = excluded.key_id, sealed = excluded.sealed,
    updated_at = excluded.updated_at

-- name: insert_sealed
INSERT INTO vault (kind, id, key_id, sealed, updated_at) VALUES (:kind, :id, :key_id, :sealed, clock_ms())
ON CONFLICT DO NOTHING

-- name: get_sealed
SELECT kind, id, key_id, sealed FROM vault WHERE kind = :kind AND id = :id

-- name: delete_sealed
DELETE FROM vault WHERE kind = :kind AND id = :id

-- name: sealed_by_key
SELECT key_id, count(*) AS count FROM vault GROUP BY key_id

-- name: sealed_with_others
SELECT kind, id, key_id, sealed FROM vault WHERE key_id <> :key_id ORDER BY kind, id LIMIT :limit

-- name: reseal
UPDATE vault SET key_id = :key_id, sealed = :sealed, updated_at = clock_ms()
WHERE kind = :kind AND id = :id AND sealed = :before
RETURNING id
