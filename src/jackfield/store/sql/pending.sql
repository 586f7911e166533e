-- name: settle_submitted
-- T2 by whoever answers a call that somebody else executes.
UPDATE calls SET status = :status, result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms(), answered_by = :answered_by
WHERE id = :id AND status IN ('waiting', 'pending')
RETURNING *

-- name: abandon_wait
-- T3 when the HTTP client hung up: nobody is here to take the answer, so the deadline does not matter.
UPDATE calls SET status = 'pending', delivery = 'inbox', first_reply = 'timeout', expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE id = :id AND status = 'waiting'
RETURNING *

-- name: report_progress
-- Progress is a sign of life. It buys another timeout, up to a limit that the tool sets, and keeps the call with the
-- server that reports: `begun_offer` is the first offer under which anybody did. Whoever says which offer it works for
-- (`attempt`, else 0) is refused once that was not the one begun. Whoever does not say it is known by its key alone
-- (`holder`), and is refused when it asks to begin what another key's server has.
UPDATE calls SET deadline = CASE
    WHEN status = 'waiting' AND clock_ms() + timeout_ms <= created_at + :limit_ms THEN clock_ms() + timeout_ms
    WHEN status = 'waiting' AND created_at + :limit_ms > deadline THEN created_at + :limit_ms
    ELSE deadline END,
    begun_offer = CASE
    WHEN begun_offer > 0 THEN begun_offer
    WHEN CAST(:attempt AS BIGINT) > 0 AND offers = :attempt THEN offers
    WHEN CAST(:attempt AS BIGINT) > 0 THEN 0
    WHEN substr(offered_to, 1, length(CAST(:holder AS TEXT))) = :holder THEN offers
    WHEN offered_to IS NULL AND CAST(:begins AS BIGINT) = 1 THEN offers
    ELSE 0 END
WHERE id = :id AND status IN ('waiting', 'pending') AND (idempotent = 1
    OR (:attempt > 0 AND (begun_offer = :attempt OR (begun_offer = 0 AND offers = :attempt)))
    OR (:attempt = 0 AND (:begins = 0 OR offered_to IS NULL OR substr(offered_to, 1, length(CAST(:holder AS TEXT))) = :holder)))
RETURNING *

-- name: move_deadline
-- The executor's: its call was held while something else than the tool took time, so its deadline is later.
UPDATE calls SET deadline = clock_ms() + :left_ms
WHERE id = :id AND status = 'running' AND attempt = :attempt AND attempt >= 1
RETURNING *

-- name: park
-- T13: the executor's call has to wait for somebody after all. It is held by a living gateway, named in `owner`, which
-- goes on with it when the answer is there.
UPDATE calls SET status = 'pending', attempt = 0, owner = :owner,
    delivery = COALESCE(delivery, CASE WHEN agent IS NOT NULL THEN 'inbox' END),
    first_reply = COALESCE(first_reply, 'pending'), expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE id = :id AND status = 'running' AND attempt = :attempt AND attempt >= 1
RETURNING *

-- name: resume
-- The end of T13: the gateway that holds the call goes on with it, as a further attempt.
UPDATE calls SET status = 'running', attempt = :attempt, deadline = clock_ms() + :left_ms
WHERE id = :id AND status = 'pending' AND attempt = 0 AND owner = :owner
RETURNING *

-- name: settle_parked
-- T2 for a parked call whose gateway died: what it waited with is lost.
UPDATE calls SET status = 'failed', result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms()
WHERE id = :id AND status = 'pending' AND attempt = 0 AND owner = :owner
RETURNING *

-- name: orphaned_parks
-- Open calls that only one gateway could go on with, and it is dead: parked ones, and the questions they wait for.
SELECT calls.* FROM calls LEFT JOIN gateways ON gateways.id = calls.owner
WHERE calls.status = 'pending' AND calls.owner IS NOT NULL AND (gateways.id IS NULL OR gateways.dead = 1)
ORDER BY calls.id LIMIT :limit

-- name: open_questions
SELECT * FROM calls WHERE run_id = :run_id AND source = 'elicitation' AND status = 'pending' ORDER BY id LIMIT 100

-- name: offer
-- A call goes to one tool server: to the first that takes it, and again to the same one when it returns. What somebody
-- has begun and may not run twice goes to nobody else.
UPDATE calls SET offered_to = :client, offered_by = :gateway, offers = offers + 1, server_left_at = NULL
WHERE id = :id AND status IN ('waiting', 'pending')
    AND (offered_to = :client OR (offered_to IS NULL AND (idempotent = 1 OR begun_offer = 0)))
    AND owner IS NULL
RETURNING *

-- name: calls_to_offer
SELECT * FROM calls WHERE status IN ('waiting', 'pending') AND offered_to IS NULL AND tool = :tool
    AND source <> 'caller' AND owner IS NULL AND (idempotent = 1 OR begun_offer = 0)
ORDER BY id LIMIT :limit

-- name: calls_offered_to
SELECT * FROM calls WHERE status IN ('waiting', 'pending') AND offered_to = :client ORDER BY id LIMIT :limit

-- name: note_server_left
-- A tool server is gone; from now on its calls wait for its return, or for another server.
UPDATE calls SET server_left_at = clock_ms()
WHERE id IN (SELECT id FROM calls WHERE status IN ('waiting', 'pending') AND offered_to = :client
        AND offered_by = :gateway AND server_left_at IS NULL ORDER BY id FOR UPDATE)

-- name: note_servers_left_with_their_gateway
UPDATE calls SET server_left_at = clock_ms()
WHERE id IN (SELECT id FROM calls WHERE status IN ('waiting', 'pending') AND offered_to IS NOT NULL
        AND server_left_at IS NULL AND offered_by NOT IN (SELECT id FROM gateways WHERE dead = 0)
        ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED)

-- name: release_offers
-- What may run twice goes to another server at once, the rest when its own has been gone for 10 s and had not begun.
UPDATE calls SET offered_to = NULL, offered_by = NULL, server_left_at = NULL
WHERE id IN (SELECT id FROM calls WHERE server_left_at IS NOT NULL AND status IN ('waiting', 'pending')
        AND (idempotent = 1 OR (begun_offer = 0 AND server_left_at <= clock_ms() - 10000))
        ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED)
RETURNING id, tool

-- name: due_waits
-- The first condition is the index's own, word for word, or SQLite would not use it; likewise below.
SELECT id FROM calls WHERE status IN ('running', 'waiting') AND deadline <= clock_ms() AND status = 'waiting'
ORDER BY deadline LIMIT :limit

-- name: due_expiries
SELECT id, status FROM calls WHERE status IN ('pending', 'pending_approval') AND expires_at <= clock_ms()
ORDER BY expires_at LIMIT :limit

-- name: overdue_calls
SELECT id FROM calls WHERE status IN ('running', 'waiting') AND deadline <= clock_ms() - 15000 AND status = 'running'
    AND attempt >= 1 ORDER BY deadline LIMIT :limit

-- name: abandon_all_waits
-- T3 where only one gateway can be, and it has just begun: whoever waited is gone. Cycles go on waiting by themselves.
UPDATE calls SET status = 'pending', delivery = 'inbox', first_reply = 'timeout',
    expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE status = 'waiting' AND cycle_id IS NULL

-- name: orphaned_waits
-- The same where several can be: an HTTP caller waited at a gateway that is dead.
SELECT calls.id FROM calls LEFT JOIN gateways ON gateways.id = calls.waiter
WHERE calls.status = 'waiting' AND calls.waiter IS NOT NULL AND calls.cycle_id IS NULL
    AND (gateways.id IS NULL OR gateways.dead = 1)
ORDER BY calls.id LIMIT :limit

-- name: undelivered_calls
-- What T12 by the sweeper is for: settled inline for an HTTP caller whose gateway is dead.
SELECT calls.id FROM calls LEFT JOIN gateways ON gateways.id = calls.waiter
WHERE calls.waiter IS NOT NULL AND calls.agent IS NOT NULL AND calls.delivery = 'inline' AND calls.sent_at IS NULL
    AND calls.cycle_id IS NULL AND calls.status IN ('completed', 'failed', 'rejected', 'expired', 'cancelled')
    AND (gateways.id IS NULL OR gateways.dead = 1)
ORDER BY calls.id LIMIT :limit

-- name: settled_among
-- Of the calls that somebody waits for here, those that are over: for wake-ups that were lost.
SELECT id FROM calls WHERE id IN (each_of(:ids)) AND status IN ('completed', 'failed', 'rejected', 'expired', 'cancelled')

-- name: calls_among
-- What events tell of calls. Arguments and results may be large and are left out.
SELECT id, run_id, tool, source, tool_version, '{}' AS arguments, principal, agent, space_id, chat_id, cycle_id, step,
    idx, status, delivery, NULL AS result, error_code, error_message, first_reply, idempotent, attempt, owner, waiter,
    sent_at, deadline, expires_at, timeout_ms, expires_in_ms, offered_to, offers, answered_by, decision, decided_by,
    decided_at, NULL AS asked_arguments, shown, created_at, finished_at, duration_ms
FROM calls WHERE id IN (each_of(:ids))

-- name: push_event
-- An event that is there already stays as it is.
INSERT INTO inbox (event_id, agent, type, status, data, created_at)
VALUES (:event_id, :agent, :type, 'pending', :data, clock_ms())
ON CONFLICT (agent, event_id) DO NOTHING
RETURNING seq

-- name: put_preference
INSERT INTO preferences (principal, chat_id, scenario, tool, by_admin, enabled, approval)
VALUES (:principal, :chat_id, :scenario, :tool, :by_admin, :enabled, :approval)
ON CONFLICT (principal, chat_id, scenario, tool, by_admin) DO UPDATE SET
    enabled = CASE WHEN CAST(:sets_enabled AS BIGINT) = 1 THEN excluded.enabled ELSE preferences.enabled END,
    approval = CASE WHEN CAST(:sets_approval AS BIGINT) = 1 THEN excluded.approval ELSE preferences.approval END

-- name: delete_preference
DELETE FROM preferences
WHERE principal = :principal AND chat_id = :chat_id AND scenario = :scenario AND tool = :tool AND by_admin = :by_admin
RETURNING tool

-- name: all_preferences
SELECT * FROM preferences

-- name: put_tool
INSERT INTO tools (name, definition, created_by, updated_at) VALUES (:name, :definition, :created_by, clock_ms())
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at
    WHERE CAST(:replace AS BIGINT) = 1
RETURNING name

-- name: delete_tool
DELETE FROM tools WHERE name = :name RETURNING name

-- name: all_tools
SELECT name, definition FROM tools ORDER BY name

-- name: put_declaration
-- A source belongs to the key that declared it first.
INSERT INTO declarations (source, principal, definitions, updated_at)
VALUES (:source, :principal, :definitions, clock_ms())
ON CONFLICT (source) DO UPDATE SET definitions = excluded.definitions, updated_at = excluded.updated_at
    WHERE declarations.principal = excluded.principal OR CAST(:any_owner AS BIGINT) = 1
RETURNING source

-- name: all_declarations
SELECT source, principal, definitions FROM declarations ORDER BY source

-- name: put_shared_value
INSERT INTO shared_values (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING

-- name: get_shared_value
SELECT value FROM shared_values WHERE name = :name
