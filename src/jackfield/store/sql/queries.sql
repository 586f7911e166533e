-- Named statements, the same text for every database. `clock_ms()` is the database's clock in milliseconds;
-- `each_of(:ids)` the elements of a JSON array; `FOR UPDATE` is left out where one writer makes it needless. The T numbers are those of pending-protocol.md.

-- name: insert_call
-- T1, for one call that is not over yet.
INSERT INTO calls (id, run_id, tool, source, tool_version, arguments, principal, agent, space_id, chat_id,
    cycle_id, step, idx, status, delivery, first_reply, idempotent, attempt, owner, waiter,
    deadline, expires_at, timeout_ms, expires_in_ms, shown, created_at)
VALUES (:id, :run_id, :tool, :source, :tool_version, :arguments, :principal, :agent, :space_id, :chat_id,
    :cycle_id, :step, :idx, :status, :delivery, :first_reply, :idempotent, :attempt, :owner, :waiter,
    CASE WHEN :has_deadline = 1 THEN clock_ms() - :age_ms + :timeout_ms END,
    CASE WHEN :has_expiry = 1 THEN clock_ms() + :expires_in_ms END,
    :timeout_ms, :expires_in_ms, :shown, clock_ms() - :age_ms)
RETURNING *

-- name: insert_settled_call
-- A short call's only write: T1 and T2 in one, since nothing was acknowledged before.
INSERT INTO calls (id, run_id, tool, source, tool_version, arguments, principal, agent, space_id, chat_id,
    status, delivery, result, error_code, error_message, idempotent, attempt, owner,
    timeout_ms, expires_in_ms, shown, created_at, finished_at, duration_ms)
VALUES (:id, :run_id, :tool, :source, :tool_version, :arguments, :principal, :agent, :space_id, :chat_id,
    :status, 'inline', :result, :error_code, :error_message, :idempotent, 1, :owner,
    :timeout_ms, :expires_in_ms, :shown, clock_ms() - :age_ms, clock_ms(), :duration_ms)
RETURNING id, created_at, finished_at

-- name: settle_executed
-- T2 by the executor: only the attempt that ran it may say how it went.
UPDATE calls SET status = :status, result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms(), duration_ms = :duration_ms
WHERE id = :id AND status = 'running' AND attempt = :attempt
RETURNING *

-- name: settle_rejected
-- T2 by a person who says no.
UPDATE calls SET status = 'rejected', result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms(),
    decision = 'rejected', decided_by = :decided_by, decided_at = clock_ms()
WHERE id = :id AND status = 'pending_approval'
RETURNING *

-- name: settle_cancelled
-- T2 by whoever stops it.
UPDATE calls SET status = 'cancelled', result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms()
WHERE id = :id AND status IN ('running', 'waiting', 'pending', 'pending_approval')
RETURNING *

-- name: settle_expired
-- T2 by the sweeper, when nobody answered.
UPDATE calls SET status = 'expired', result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms(),
    decision = CASE WHEN status = 'pending_approval' THEN 'expired' ELSE decision END,
    decided_at = CASE WHEN status = 'pending_approval' THEN clock_ms() ELSE decided_at END
WHERE id = :id AND status IN ('pending', 'pending_approval') AND expires_at <= clock_ms()
RETURNING *

-- name: settle_overdue
-- T2 by the sweeper, 15 s after the executor's own timer should have done it.
UPDATE calls SET status = 'failed', result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms()
WHERE id = :id AND status = 'running' AND attempt >= 1 AND deadline + 15000 <= clock_ms()
RETURNING *

-- name: insert_inbox_event
-- The unique key makes a second event for one call a fault, never a second delivery.
INSERT INTO inbox (event_id, agent, type, status, not_before, data, created_at)
VALUES (:event_id, :agent, :type, 'pending', :not_before, :data, clock_ms())

-- name: flip_one
-- T3 for one waiter.
UPDATE calls SET status = 'pending', delivery = 'inbox', first_reply = 'timeout', expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE id = :id AND status = 'waiting' AND deadline <= clock_ms()
RETURNING *

-- name: approve_to_run
-- T4 for tools that a gateway runs.
UPDATE calls SET status = 'running', attempt = 0, arguments = COALESCE(:arguments, arguments),
    asked_arguments = NULLIF(arguments, COALESCE(:arguments, arguments)),
    decision = 'approved', decided_by = :decided_by, decided_at = clock_ms()
WHERE id = :id AND status = 'pending_approval'
RETURNING *

-- name: approve_to_wait
-- T4 for tools that somebody else answers.
UPDATE calls SET status = 'pending', arguments = COALESCE(:arguments, arguments), expires_at = clock_ms() + NULLIF(expires_in_ms, 0),
    asked_arguments = NULLIF(arguments, COALESCE(:arguments, arguments)),
    decision = 'approved', decided_by = :decided_by, decided_at = clock_ms()
WHERE id = :id AND status = 'pending_approval'
RETURNING *

-- name: claim
-- T5
UPDATE calls SET attempt = 1, owner = :owner, deadline = clock_ms() + timeout_ms
WHERE id = :id AND status = 'running' AND attempt = 0
RETURNING *

-- name: reclaim
-- T6 for idempotent tools.
UPDATE calls SET attempt = attempt + 1, owner = :owner, deadline = clock_ms() + timeout_ms
WHERE id = :id AND status = 'running' AND attempt = :seen
RETURNING *

-- name: mark_sent
-- T11
UPDATE calls SET sent_at = clock_ms() WHERE id = :id AND delivery = 'inline' RETURNING id

-- name: give_to_inbox
-- T12
UPDATE calls SET delivery = 'inbox'
WHERE id = :id AND delivery = 'inline' AND cycle_id IS NULL AND agent IS NOT NULL AND sent_at IS NULL
    AND status IN ('completed', 'failed', 'rejected', 'expired', 'cancelled')
RETURNING *

-- name: unclaimed_calls
SELECT * FROM calls WHERE status = 'running' AND attempt = 0 ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: orphaned_calls
-- What T6 is for: running, and the gateway that ran it is dead.
SELECT calls.* FROM calls LEFT JOIN gateways ON gateways.id = calls.owner
WHERE calls.status = 'running' AND calls.attempt >= 1 AND (gateways.id IS NULL OR gateways.dead = 1)
ORDER BY calls.id LIMIT :limit

-- name: get_call
SELECT * FROM calls WHERE id = :id

-- name: first_call_of_run
SELECT principal FROM calls WHERE run_id = :run_id LIMIT 1

-- name: insert_idempotency
-- Takes the key if it is free or older than a day.
INSERT INTO idempotency (principal, key, digest, call_id, created_at)
VALUES (:principal, :key, :digest, :call_id, clock_ms())
ON CONFLICT (principal, key) DO UPDATE SET digest = excluded.digest, call_id = excluded.call_id,
    created_at = excluded.created_at
    WHERE idempotency.created_at < clock_ms() - 86400000
RETURNING call_id

-- name: get_idempotency
SELECT digest, call_id FROM idempotency WHERE principal = :principal AND key = :key

-- name: insert_gateway
INSERT INTO gateways (id, alive_until) VALUES (:id, clock_ms() + 15000)

-- name: bury_other_gateways
-- A database of one process: whoever else is written here is gone.
UPDATE gateways SET dead = 1 WHERE id <> :id

-- name: beat
UPDATE gateways SET alive_until = clock_ms() + 15000 WHERE id = :id AND dead = 0 RETURNING id

-- name: bury_gateway
UPDATE gateways SET dead = 1 WHERE id = :id

-- name: bury_late_gateways
-- One whose row is locked is beating just now, or being buried by somebody else.
UPDATE gateways SET dead = 1 WHERE id IN (
    SELECT id FROM gateways WHERE alive_until < clock_ms() AND dead = 0 AND id <> :besides
    ORDER BY id FOR UPDATE SKIP LOCKED)
RETURNING id

-- name: put_login
INSERT INTO logins (digest, principal, key_digest, expires_at)
VALUES (:digest, :principal, :key_digest, clock_ms() + :lifetime_ms)

-- name: get_login
SELECT principal, key_digest FROM logins WHERE digest = :digest AND expires_at > clock_ms()

-- name: delete_login
DELETE FROM logins WHERE digest = :digest

-- name: prune_calls
-- Ids carry their time, so the primary key finds the oldest without an index of its own. An open cycle is resumed from
-- its calls, so those stay.
DELETE FROM calls WHERE id IN (
    SELECT id FROM calls WHERE id < :before_id AND status IN ('completed', 'failed', 'rejected', 'expired', 'cancelled')
        AND NOT EXISTS (SELECT 1 FROM cycles WHERE cycles.id = calls.cycle_id AND cycles.status = 'open')
    ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)
RETURNING id

-- name: prune_idempotency
DELETE FROM idempotency WHERE (principal, key) IN (
    SELECT principal, key FROM idempotency WHERE created_at < clock_ms() - 86400000 ORDER BY created_at LIMIT :limit)

-- name: prune_logins
DELETE FROM logins WHERE digest IN (SELECT digest FROM logins WHERE expires_at < clock_ms() LIMIT :limit)

-- name: prune_inbox
-- An agent of ours wakes for its events, however late. An outside program (a key `agent:NAME`) marks none as processed,
-- so its events go when they are old, read or not.
DELETE FROM inbox WHERE seq IN (
    SELECT seq FROM inbox WHERE created_at < :before AND (status = 'processed'
        OR (status = 'pending' AND NOT EXISTS (SELECT 1 FROM agents WHERE agents.id = inbox.agent)))
    ORDER BY seq LIMIT :limit)
RETURNING seq

-- name: prune_gateways
DELETE FROM gateways WHERE dead = 1 AND alive_until < :before
    AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.owner = gateways.id AND calls.status = 'running')

-- name: ping
SELECT clock_ms() AS now
