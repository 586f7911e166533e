-- name: all_connections
SELECT * FROM connections ORDER BY id

-- name: connections_by_id
SELECT * FROM connections WHERE id IN (each_of(:ids))

-- name: connections_of
SELECT * FROM connections WHERE principal = :principal AND principal <> '' ORDER BY id

-- name: connection_tokens
SELECT connections.*, vault.sealed FROM connections
LEFT JOIN vault ON vault.kind = 'connection' AND vault.id = connections.id
WHERE connections.id = :id

-- name: put_connection
INSERT INTO connections (id, source, principal, is_connected, version, issuer, scopes, wanted, expires_at,
    created_at, updated_at)
VALUES (:id, :source, :principal, 1, 1, :issuer, :scopes, :wanted, :expires_at, clock_ms(), clock_ms())
ON CONFLICT (id) DO UPDATE SET is_connected = 1, version = connections.version + 1, issuer = excluded.issuer,
    scopes = excluded.scopes, wanted = excluded.wanted,
    expires_at = excluded.expires_at, refreshing_by = NULL, refreshing_until = NULL,
    created_at = CASE WHEN connections.is_connected = 0 OR CAST(:is_login AS BIGINT) = 1 THEN excluded.created_at
        ELSE connections.created_at END,
    updated_at = clock_ms()
RETURNING *

-- name: lease_refresh
-- One gateway refreshes; others take over when it has died or takes too long.
UPDATE connections SET refreshing_by = :gateway, refreshing_until = clock_ms() + :lease_ms
WHERE id = :id AND version = :version AND is_connected = 1
    AND (refreshing_by IS NULL OR refreshing_until <= clock_ms()
        OR EXISTS (SELECT 1 FROM gateways WHERE gateways.id = connections.refreshing_by AND dead = 1))
RETURNING id

-- name: finish_refresh
UPDATE connections SET version = version + 1, issuer = :issuer, scopes = :scopes, expires_at = :expires_at,
    refreshing_by = NULL, refreshing_until = NULL, updated_at = clock_ms()
WHERE id = :id AND version = :version AND refreshing_by = :gateway
RETURNING *

-- name: release_refresh
UPDATE connections SET refreshing_by = NULL, refreshing_until = NULL
WHERE id = :id AND version = :version AND refreshing_by = :gateway

-- name: end_connection
UPDATE connections SET is_connected = 0, version = version + 1, expires_at = NULL, refreshing_by = NULL,
    refreshing_until = NULL, updated_at = clock_ms()
WHERE id = :id AND version = :version AND is_connected = 1
RETURNING *

-- name: want_connection
INSERT INTO connections (id, source, principal, is_connected, version, issuer, scopes, wanted, created_at, updated_at)
VALUES (:id, :source, :principal, 0, 0, '', '[]', :wanted, clock_ms(), clock_ms())
ON CONFLICT (id) DO UPDATE SET wanted = excluded.wanted, updated_at = clock_ms()
RETURNING *

-- name: delete_connection
DELETE FROM connections WHERE id = :id RETURNING *

-- name: put_flow
INSERT INTO login_flows (id, source, principal, asked_by, expires_at, created_at)
VALUES (:id, :source, :principal, :asked_by, clock_ms() + :lasts_ms, clock_ms())
ON CONFLICT (id) DO NOTHING

-- name: begin_flow
INSERT INTO login_flows (id, source, principal, asked_by, state_digest, browser, expires_at, created_at)
VALUES (:id, :source, :principal, :asked_by, :state_digest, :browser, clock_ms() + :lasts_ms, clock_ms())
ON CONFLICT (id) DO UPDATE SET state_digest = excluded.state_digest, browser = excluded.browser,
    asked_by = excluded.asked_by, expires_at = excluded.expires_at

-- name: flows_asked_by
SELECT id FROM login_flows WHERE asked_by = :asked_by ORDER BY created_at DESC, id DESC LIMIT 1000

-- name: get_flow
SELECT * FROM login_flows WHERE id = :id AND expires_at > clock_ms()

-- name: flow_by_state
SELECT login_flows.*, vault.sealed FROM login_flows
LEFT JOIN vault ON vault.kind = 'login_flow' AND vault.id = login_flows.id
WHERE state_digest = :state_digest AND expires_at > clock_ms()

-- name: use_flow
-- An answer counts once. The link can be used for another login until that is made.
UPDATE login_flows SET state_digest = NULL WHERE id = :id AND state_digest = :state_digest
RETURNING id

-- name: delete_flow
DELETE FROM login_flows WHERE id = :id

-- name: old_flows
SELECT id FROM login_flows WHERE expires_at <= clock_ms() LIMIT :limit
