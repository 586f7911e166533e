-- name: put_login
INSERT INTO logins (digest, principal, key_digest, expires_at)
VALUES (:digest, :principal, :key_digest, clock_ms() + :lifetime_ms)

-- name: get_login
SELECT principal, key_digest FROM logins WHERE digest = :digest AND expires_at > clock_ms()

-- name: delete_login
DELETE FROM logins WHERE digest = :digest

-- name: prune_logins
DELETE FROM logins WHERE digest IN (SELECT digest FROM logins WHERE expires_at < clock_ms() LIMIT :limit)
