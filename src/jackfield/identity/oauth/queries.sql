-- name: insert_oauth_client
INSERT INTO oauth_clients (id, secret_digest, metadata, created_at)
SELECT :id, :secret_digest, :metadata, clock_ms()
WHERE (SELECT COUNT(*) FROM oauth_clients) < :most
RETURNING id

-- name: get_oauth_client
SELECT secret_digest, metadata FROM oauth_clients WHERE id = :id

-- name: use_oauth_client
UPDATE oauth_clients SET used_at = clock_ms() WHERE id = :id

-- name: prune_oauth_clients
DELETE FROM oauth_clients WHERE id IN (
  SELECT id FROM oauth_clients
  WHERE (used_at IS NULL AND created_at < clock_ms() - :unused_ms)
     OR (used_at < clock_ms() - :idle_ms AND NOT EXISTS (
           SELECT 1 FROM oauth_grants WHERE oauth_grants.client_id = oauth_clients.id))
  LIMIT :limit)

-- name: insert_oauth_grant
INSERT INTO oauth_grants (id, client_id, client_name, client_auth, principal, credential, resource, rights, created_at,
    expires_at)
VALUES (:id, :client_id, :client_name, :client_auth, :principal, :credential, :resource, :rights, clock_ms(),
    clock_ms() + :lifetime_ms)

-- name: get_oauth_grant
SELECT * FROM oauth_grants WHERE id = :id AND expires_at > clock_ms()

-- name: extend_oauth_grant
UPDATE oauth_grants SET used_at = clock_ms(),
    expires_at = CASE WHEN clock_ms() + :lifetime_ms < created_at + :longest_ms THEN clock_ms() + :lifetime_ms
                      ELSE created_at + :longest_ms END
WHERE id = :id

-- name: grants_of
SELECT * FROM oauth_grants
WHERE used_at IS NOT NULL AND expires_at > clock_ms() AND (principal = :principal OR :principal = '')
ORDER BY created_at DESC, id LIMIT :limit

-- name: delete_oauth_grant
DELETE FROM oauth_grants WHERE id = :id
RETURNING id

-- name: delete_oauth_tokens
DELETE FROM oauth_tokens WHERE grant_id = :grant_id

-- name: delete_oauth_codes
DELETE FROM oauth_codes WHERE grant_id = :grant_id

-- name: prune_oauth_grants
DELETE FROM oauth_grants WHERE id IN (SELECT id FROM oauth_grants WHERE expires_at < clock_ms() LIMIT :limit)

-- name: insert_oauth_code
INSERT INTO oauth_codes (digest, grant_id, redirect_uri, challenge, expires_at)
VALUES (:digest, :grant_id, :redirect_uri, :challenge, clock_ms() + :lifetime_ms)

-- name: use_oauth_code
UPDATE oauth_codes SET used_at = clock_ms() WHERE digest = :digest AND used_at IS NULL AND expires_at > clock_ms()
RETURNING grant_id, redirect_uri, challenge

-- name: get_oauth_code
SELECT grant_id, used_at FROM oauth_codes WHERE digest = :digest

-- name: prune_oauth_codes
DELETE FROM oauth_codes WHERE digest IN (
  SELECT digest FROM oauth_codes WHERE expires_at < clock_ms() - :kept_ms LIMIT :limit)

-- name: insert_oauth_token
INSERT INTO oauth_tokens (digest, grant_id, kind, scopes, expires_at)
VALUES (:digest, :grant_id, :kind, :scopes, clock_ms() + :lifetime_ms)

-- name: get_oauth_token
SELECT digest, grant_id, kind, scopes, spent_at FROM oauth_tokens WHERE digest = :digest

-- name: find_access_token
SELECT t.scopes, t.expires_at - clock_ms() AS left_ms, g.id AS grant_id, g.principal, g.credential, g.resource, g.rights
FROM oauth_tokens t JOIN oauth_grants g ON g.id = t.grant_id
WHERE t.digest = :digest AND t.kind = 'access' AND g.expires_at > clock_ms()

-- name: spend_refresh_token
UPDATE oauth_tokens SET spent_at = clock_ms()
WHERE digest = :digest AND kind = 'refresh' AND spent_at IS NULL AND expires_at > clock_ms()
RETURNING grant_id

-- name: delete_oauth_token
DELETE FROM oauth_tokens WHERE digest = :digest

-- name: prune_oauth_tokens
DELETE FROM oauth_tokens WHERE digest IN (
  SELECT digest FROM oauth_tokens WHERE expires_at < clock_ms() - :kept_ms LIMIT :limit)
