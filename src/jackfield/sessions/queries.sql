-- name: insert_session
INSERT INTO sessions (id, owner, agent, gateway, opened_at) VALUES (:session_key, :owner, :agent, :gateway, clock_ms())

-- name: reopen_session
-- By its owner, when it is over or the gateway it lived in is gone.
UPDATE sessions SET gateway = :gateway, agent = :agent, opened_at = clock_ms(), ended_at = NULL
WHERE id = :session_key AND owner = :owner
    AND (ended_at IS NOT NULL OR gateway NOT IN (SELECT id FROM gateways WHERE dead = 0))
RETURNING id

-- name: end_session
UPDATE sessions SET ended_at = clock_ms() WHERE id = :session_key AND gateway = :gateway AND ended_at IS NULL

-- name: get_session
SELECT owner, agent, gateway, ended_at FROM sessions WHERE id = :session_key

-- name: lost_requests
-- Calls of lent tools that nobody can answer any more: the gateway that their session lived in is gone.
SELECT calls.id FROM calls JOIN sessions ON sessions.id = calls.run_id
WHERE calls.status IN ('waiting', 'pending') AND calls.source = 'caller' AND sessions.ended_at IS NULL
    AND sessions.gateway NOT IN (SELECT id FROM gateways WHERE dead = 0)
ORDER BY calls.id LIMIT :limit

-- name: prune_sessions
DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE opened_at < :before
        AND (ended_at IS NOT NULL OR gateway NOT IN (SELECT id FROM gateways WHERE dead = 0)) LIMIT :limit)
RETURNING id
