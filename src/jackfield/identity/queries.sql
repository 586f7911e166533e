-- name: put_login
INSERT INTO logins (digest, principal, key_digest, expires_at)
VALUES (:digest, :principal, :key_digest, clock_ms() + :lifetime_ms)

-- name: get_login
SELECT principal, key_digest, expires_at - clock_ms() AS left_ms FROM logins
WHERE digest = :digest AND expires_at > clock_ms()

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
RETURNING *

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

-- name: put_user
-- The same id of another issuer is another person, to whom nothing belongs that was signed in before.
INSERT INTO users (id, issuer, name, email, roles, signed_in_at, created_at)
VALUES (:id, :issuer, :name, :email, :roles, clock_ms(), clock_ms())
ON CONFLICT (id) DO UPDATE SET issuer = excluded.issuer, name = excluded.name, email = excluded.email,
    roles = excluded.roles, signed_in_at = excluded.signed_in_at, signed_out_at = NULL,
    sign_outs = users.sign_outs + CASE WHEN users.issuer = excluded.issuer THEN 0 ELSE 1 END
RETURNING *

-- name: sign_out_user
UPDATE users SET sign_outs = sign_outs + 1, signed_out_at = clock_ms(), tokens_since = clock_ms() WHERE id = :id
RETURNING *

-- name: delete_logins_of
DELETE FROM logins WHERE principal = :principal

-- name: all_users
SELECT * FROM users ORDER BY id

-- name: users_by_id
SELECT * FROM users WHERE id IN (each_of(:ids))

-- name: insert_sign_in
INSERT INTO sign_ins (state, browser, issuer, nonce, verifier, return_to, expires_at)
VALUES (:state, :browser, :issuer, :nonce, :verifier, :return_to, clock_ms() + :lifetime_ms)

-- name: take_sign_in
DELETE FROM sign_ins WHERE state = :state AND browser = :browser
RETURNING issuer, nonce, verifier, return_to, CASE WHEN expires_at > clock_ms() THEN 1 ELSE 0 END AS is_open

-- name: prune_sign_ins
DELETE FROM sign_ins WHERE state IN (SELECT state FROM sign_ins WHERE expires_at < clock_ms() LIMIT :limit)
