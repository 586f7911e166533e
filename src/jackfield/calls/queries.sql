-- Named statements, the same text for every database. `clock_ms()` is the database's clock in milliseconds;
-- `each_of(:ids)` the elements of a JSON array; `FOR UPDATE` is left out where one writer makes it needless. The T numbers
-- are those of the pending-call protocol.

-- name: insert_call
-- T1, for one call that is not over yet.
INSERT INTO calls (id, run_id, tool, source, tool_version, kind, arguments, principal, agent, space_id, chat_id,
    cycle_id, step, idx, awaited_by, status, delivery, first_reply, idempotent, verify, attempt, owner, waiter,
    deadline, expires_at, timeout_ms, expires_in_ms, shown, asked_arguments, hooks, trace_id, replay_of, created_at)
VALUES (:id, :run_id, :tool, :source, :tool_version, :kind, :arguments, :principal, :agent, :space_id, :chat_id,
    :cycle_id, :step, :idx, :awaited_by, :status, :delivery, :first_reply, :idempotent, :verify, :attempt, :owner, :waiter,
    CASE WHEN :has_deadline = 1 THEN clock_ms() - :age_ms + :timeout_ms END,
    CASE WHEN :has_expiry = 1 THEN clock_ms() + :expires_in_ms END,
    :timeout_ms, :expires_in_ms, :shown, :asked_arguments, :hooks, :trace_id, :replay_of, clock_ms() - :age_ms)
RETURNING id, deadline, expires_at, created_at

-- name: insert_settled_call
-- A short call's only write: T1 and T2 in one, since nothing was acknowledged before.
INSERT INTO calls (id, run_id, tool, source, tool_version, kind, arguments, principal, agent, space_id, chat_id,
    status, delivery, result, error_code, error_message, idempotent, attempt, owner,
    timeout_ms, expires_in_ms, shown, asked_arguments, hooks, trace_id, replay_of, created_at, finished_at, duration_ms)
VALUES (:id, :run_id, :tool, :source, :tool_version, :kind, :arguments, :principal, :agent, :space_id, :chat_id,
    :status, 'inline', :result, :error_code, :error_message, :idempotent, 1, :owner,
    :timeout_ms, :expires_in_ms, :shown, :asked_arguments, :hooks, :trace_id, :replay_of, clock_ms() - :age_ms, clock_ms(),
    :duration_ms)
RETURNING id, created_at, finished_at

-- name: settle_executed
-- T2 by the executor: only the attempt that ran it may say how it went.
UPDATE calls SET status = :status, result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms(), duration_ms = :duration_ms,
    hooks = COALESCE(:hooks, hooks), trace_id = COALESCE(trace_id, :trace_id), verified_by = :verified_by
WHERE id = :id AND status = 'running' AND attempt = :attempt
RETURNING *

-- name: settle_known
-- The same for a call of which its executor knows all the rest, and, unless another one was quicker, the number of its
-- answer.
UPDATE calls SET status = :status, result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms(), duration_ms = :duration_ms,
    hooks = COALESCE(:hooks, hooks), trace_id = COALESCE(trace_id, :trace_id), verified_by = :verified_by,
    answer = COALESCE(answer, :answer)
WHERE id = :id AND status = 'running' AND attempt = :attempt
RETURNING id, delivery, finished_at

-- name: settle_rejected
-- T2 by a person who says no.
UPDATE calls SET status = 'rejected', result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms(),
    decision = 'rejected', decided_by = :decided_by, decided_at = clock_ms()
WHERE id = :id AND status IN ('pending_approval', 'pending_login')
RETURNING *

-- name: settle_cancelled
-- T2 by whoever stops it.
UPDATE calls SET status = 'cancelled', result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms()
WHERE id = :id AND status IN ('running', 'waiting', 'pending', 'pending_approval', 'pending_login')
RETURNING *

-- name: settle_expired
-- T2 by the sweeper, when nobody answered.
UPDATE calls SET status = 'expired', result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms(),
    decision = CASE WHEN status = 'pending_approval' THEN 'expired' ELSE decision END,
    decided_at = CASE WHEN status = 'pending_approval' THEN clock_ms() ELSE decided_at END
WHERE id = :id AND status IN ('pending', 'pending_approval', 'pending_login') AND expires_at <= clock_ms()
RETURNING *

-- name: settle_overdue
-- T2 by the sweeper, 15 s after the executor's own timer should have done it. What can still be verified is (T15).
UPDATE calls SET status = 'failed', result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms()
WHERE id = :id AND status = 'running' AND attempt >= 1 AND deadline + 15000 <= clock_ms()
    AND (verify IS NULL OR verifications >= 3)
RETURNING *

-- name: flip_one
-- T3 for one waiter.
UPDATE calls SET status = 'pending', delivery = 'inbox', first_reply = 'timeout', expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE id = :id AND status = 'waiting' AND deadline <= clock_ms()
RETURNING *

-- name: approve_to_run
-- T4 for tools that a gateway runs.
UPDATE calls SET status = 'running', attempt = 0, arguments = COALESCE(:arguments, arguments),
    asked_arguments = COALESCE(asked_arguments, NULLIF(arguments, COALESCE(:arguments, arguments))),
    hooks = COALESCE(:hooks, hooks),
    decision = 'approved', decided_by = :decided_by, decided_at = clock_ms()
WHERE id = :id AND status = 'pending_approval'
RETURNING *

-- name: approve_to_wait
-- T4 for tools that somebody else answers.
UPDATE calls SET status = 'pending', arguments = COALESCE(:arguments, arguments), expires_at = clock_ms() + NULLIF(expires_in_ms, 0),
    asked_arguments = COALESCE(asked_arguments, NULLIF(arguments, COALESCE(:arguments, arguments))),
    hooks = COALESCE(:hooks, hooks),
    decision = 'approved', decided_by = :decided_by, decided_at = clock_ms()
WHERE id = :id AND status = 'pending_approval'
RETURNING *

-- name: claim
-- T5. Where a call waited for a login, earlier attempts were made, and the number of one is never used again.
UPDATE calls SET attempt = login_attempt + 1, owner = :owner, deadline = clock_ms() + timeout_ms
WHERE id = :id AND status = 'running' AND attempt = 0
RETURNING *

-- name: reclaim
-- T6 for idempotent tools.
UPDATE calls SET attempt = attempt + 1, owner = :owner, deadline = clock_ms() + timeout_ms
WHERE id = :id AND status = 'running' AND attempt = :seen AND verifying IS NULL
RETURNING *

-- name: take_to_verify
-- T15: nobody knows whether the tool took effect, and whoever takes the call asks the tool that can say so. Three times
-- at most; then it is interrupted.
UPDATE calls SET attempt = attempt + 1, owner = :owner, deadline = clock_ms() + :left_ms,
    verifying = COALESCE(verifying, :why), verifications = verifications + 1
WHERE id = :id AND status = 'running' AND attempt = :seen AND attempt >= 1
    AND verify IS NOT NULL AND verifications < 3
    AND (CAST(:is_late AS BIGINT) = 0 OR deadline + 15000 <= clock_ms())
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

-- name: answer_run
-- With what decides the slot of a call that a run waits for: the last one makes a parked run ready. By the run's id
-- alone, so that it waits for whoever is parking it just now.
UPDATE runs SET awaited = awaited - 1, answered = answered + 1,
    status = CASE WHEN status = 'parked' AND awaited = 1 THEN 'ready' ELSE status END
WHERE id = :journal_id
RETURNING status, kind, answered

-- name: number_answer
UPDATE calls SET answer = :answer WHERE id = :id

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

-- name: call_under_live_key
-- The call that this key stands for, and will for another minute at least.
SELECT call_id FROM idempotency
WHERE principal = :principal AND key = :key AND created_at > clock_ms() - 86340000

-- name: get_idempotency
SELECT digest, call_id FROM idempotency WHERE principal = :principal AND key = :key

-- name: prune_calls
-- Ids carry their time, so the primary key finds the oldest without an index of its own. A run that is not over is
-- resumed from its calls, so those stay.
-- Materialized, or PostgreSQL may run the subquery more than once and delete more than the limit.
WITH old AS MATERIALIZED (
    SELECT id FROM calls WHERE id < :before_id
        AND status IN ('completed', 'failed', 'rejected', 'expired', 'cancelled', 'refused')
        AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = calls.cycle_id AND runs.finished_at IS NULL)
    ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)
DELETE FROM calls WHERE id IN (SELECT id FROM old)
RETURNING id

-- name: prune_idempotency
DELETE FROM idempotency WHERE (principal, key) IN (
    SELECT principal, key FROM idempotency WHERE created_at < clock_ms() - 86400000 ORDER BY created_at LIMIT :limit)

-- name: settle_submitted
-- T2 by whoever answers a call that somebody else executes.
UPDATE calls SET status = :status, result = :result, error_code = :error_code, error_message = :error_message,
    delivery = COALESCE(delivery, 'inline'), finished_at = clock_ms(), answered_by = :answered_by,
    hooks = COALESCE(:hooks, hooks)
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
    ELSE 0 END,
    begun_at = COALESCE(begun_at, CASE WHEN offered_to IS NOT NULL THEN clock_ms() END)
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
    delivery = COALESCE(delivery, CASE WHEN agent IS NOT NULL AND awaited_by IS NULL THEN 'inbox' END),
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
UPDATE calls SET offered_to = :client, offered_by = :gateway, offers = offers + 1, server_left_at = NULL,
    offered_at = clock_ms()
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
-- Work that goes on at its owner was offered by none: NULL, which is "not in" an empty list of living gateways.
UPDATE calls SET server_left_at = clock_ms()
WHERE id IN (SELECT id FROM calls WHERE status IN ('waiting', 'pending') AND offered_to IS NOT NULL
        AND server_left_at IS NULL AND offered_by IS NOT NULL AND offered_by NOT IN (SELECT id FROM gateways WHERE dead = 0)
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
SELECT id, status FROM calls WHERE status IN ('pending', 'pending_approval', 'pending_login') AND expires_at <= clock_ms()
ORDER BY expires_at LIMIT :limit

-- name: overdue_calls
SELECT id FROM calls WHERE status IN ('running', 'waiting') AND deadline <= clock_ms() - 15000 AND status = 'running'
    AND attempt >= 1 ORDER BY deadline LIMIT :limit

-- name: abandon_all_waits
-- T3 where only one gateway can be, and it has just begun: whoever waited is gone. Cycles go on waiting by themselves.
UPDATE calls SET status = 'pending', delivery = 'inbox', first_reply = 'timeout',
    expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE status = 'waiting' AND cycle_id IS NULL
RETURNING *

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
SELECT id FROM calls WHERE id IN (each_of(:ids))
    AND status IN ('completed', 'failed', 'rejected', 'expired', 'cancelled', 'refused')

-- name: calls_among
-- What events tell of calls. Arguments and results may be large and are left out.
SELECT id, run_id, tool, source, tool_version, kind, '{}' AS arguments, principal, agent, space_id, chat_id, cycle_id,
    step, idx, awaited_by, answer, status, delivery, NULL AS result, error_code, error_message, first_reply, idempotent, attempt, owner, waiter,
    sent_at, deadline, expires_at, timeout_ms, expires_in_ms, offered_to, offers, answered_by, decision, decided_by,
    decided_at, NULL AS asked_arguments, shown, NULL AS hooks, created_at, finished_at, duration_ms,
    login_source, login_principal, login_scopes, login_times, login_since, count, offered_at, begun_at, trace_id, replay_of,
    verify, verifying, verifications, verified_by
FROM calls WHERE id IN (each_of(:ids))

-- name: insert_large_result
-- In the transaction that settles the call, and only if that won; a second insert is a fault.
INSERT INTO large_results (call_id, body, size, digest, created_at)
VALUES (:call_id, :body, :size, :digest, clock_ms())

-- name: get_large_result
SELECT body FROM large_results WHERE call_id = :call_id

-- name: part_of_large_result
-- `count` bytes from number `first` on; the first byte has the number 1.
SELECT size, digest, substr(body, CAST(:first AS INTEGER), CAST(:count AS INTEGER)) AS part
FROM large_results WHERE call_id = :call_id

-- name: prune_large_results
DELETE FROM large_results WHERE call_id IN (each_of(:ids))

-- name: insert_withheld
-- In the transaction that settles the call, and only if that won.
INSERT INTO withheld_results (call_id, outcome) VALUES (:call_id, :outcome)

-- name: get_withheld
SELECT outcome FROM withheld_results WHERE call_id = :call_id

-- name: prune_withheld
DELETE FROM withheld_results WHERE call_id IN (each_of(:ids))

-- name: put_trace
INSERT INTO call_traces (call_id, trace) VALUES (:call_id, :trace)
ON CONFLICT (call_id) DO UPDATE SET trace = excluded.trace

-- name: get_trace
SELECT trace FROM call_traces WHERE call_id = :call_id

-- name: prune_traces
DELETE FROM call_traces WHERE call_id IN (each_of(:ids))

-- name: insert_operation
-- Whoever took the call's offer has it in hand; a second one finds it there.
INSERT INTO operations (call_id, owner, epoch, reference, begins, looks, faults, next_at, created_at)
VALUES (:call_id, :owner, 1, NULL, 1, 0, 0, clock_ms() + :lease_ms, clock_ms())
ON CONFLICT (call_id) DO NOTHING
RETURNING *

-- name: park_operation
-- T13: the work of the executor's call goes on at its owner; no gateway holds anything, so any may look after it.
UPDATE calls SET status = 'pending', attempt = 0, owner = NULL, offered_to = 'operation',
    delivery = COALESCE(delivery, CASE WHEN agent IS NOT NULL AND awaited_by IS NULL THEN 'inbox' END),
    first_reply = COALESCE(first_reply, 'pending'), expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE id = :id AND status = 'running' AND attempt = :attempt AND attempt >= 1
RETURNING *

-- name: insert_begun_operation
INSERT INTO operations (call_id, owner, epoch, reference, begins, looks, faults, next_at, created_at)
VALUES (:call_id, NULL, 1, :reference, 1, 0, 0, clock_ms(), clock_ms())
ON CONFLICT (call_id) DO NOTHING

-- name: untaken_operations
-- The first condition is the index's own, word for word.
SELECT * FROM calls WHERE status IN ('waiting', 'pending') AND offered_to IS NULL AND tool IN (each_of(:ids))
ORDER BY id LIMIT :limit

-- name: claim_operation
-- `next_at` is the timer, and while somebody has it in hand the end of its lease.
UPDATE operations SET owner = :owner, epoch = epoch + 1, begins = :begins, next_at = clock_ms() + :lease_ms
WHERE call_id = :call_id AND epoch = :epoch
RETURNING *

-- name: put_off_operation
UPDATE operations SET owner = NULL, reference = COALESCE(:reference, reference), begins = :begins, looks = :looks,
    faults = :faults, next_at = clock_ms() + :pause_ms, said = :said, questions = :questions,
    updated_at = CASE WHEN :is_news = 1 THEN clock_ms() ELSE updated_at END
WHERE call_id = :call_id AND epoch = :epoch
RETURNING call_id

-- name: note_questions
-- In the transaction that puts them on record; only who has the work in hand asks.
UPDATE operations SET questions = :questions, updated_at = clock_ms()
WHERE call_id = :call_id AND epoch = :epoch
RETURNING call_id

-- name: delete_operation
DELETE FROM operations WHERE call_id = :call_id RETURNING call_id

-- name: due_operations
-- Those whose time has come, and those whose gateway died with them in hand.
SELECT * FROM operations WHERE next_at <= clock_ms()
    OR (owner IS NOT NULL AND owner NOT IN (SELECT id FROM gateways WHERE dead = 0))
ORDER BY next_at LIMIT :limit

-- name: operations_among
SELECT * FROM operations WHERE call_id IN (each_of(:ids))

-- name: put_way
INSERT INTO ways (call_id, via, config, created_at) VALUES (:call_id, :via, :config, clock_ms())
ON CONFLICT (call_id) DO NOTHING

-- name: get_way
SELECT via, config FROM ways WHERE call_id = :call_id

-- name: prune_ways
DELETE FROM ways WHERE call_id IN (SELECT call_id FROM ways WHERE created_at < :before LIMIT :limit)

-- name: park_for_login
-- T13: the source refused the executor's call before it acted, and wants a login. No gateway holds anything.
UPDATE calls SET status = 'pending_login', attempt = 0, owner = NULL,
    login_source = :source, login_principal = :principal, login_scopes = :scopes, login_times = login_times + 1,
    login_attempt = attempt, login_since = clock_ms(),
    delivery = COALESCE(delivery, CASE WHEN agent IS NOT NULL AND awaited_by IS NULL THEN 'inbox' END),
    first_reply = COALESCE(first_reply, 'pending'), expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE id = :id AND status = 'running' AND attempt = :attempt AND attempt >= 1
RETURNING *

-- name: login_to_run
-- T4': the login is done.
UPDATE calls SET status = 'running', attempt = 0
WHERE id = :id AND status = 'pending_login'
RETURNING *

-- name: calls_waiting_for_login
-- For a login of this principal, or for the one for all (NULL). The first condition is the index's own, word for word.
SELECT id FROM calls WHERE status = 'pending_login' AND login_source = :source
    AND (CAST(:principal AS TEXT) IS NULL OR login_principal = :principal) AND id > :after
ORDER BY id LIMIT :limit

-- name: calls_waiting_for_login_of
SELECT id FROM calls WHERE status = 'pending_login' AND login_principal = :principal ORDER BY id LIMIT :limit

-- name: logins_waited_for
-- Each login that calls have waited for at least so long, and whose calls they are.
SELECT DISTINCT login_source, login_principal, login_scopes, source, principal,
    CASE WHEN login_since <= clock_ms() - :settled_ms THEN 1 ELSE 0 END AS is_settled
FROM calls WHERE status = 'pending_login' LIMIT :limit

-- name: insert_login_join
INSERT INTO login_joins (digest, call_id, created_at) VALUES (:digest, :call_id, clock_ms())
ON CONFLICT (digest) DO NOTHING
RETURNING call_id

-- name: login_join
-- A statement of its own, so that it sees what a transaction wrote that the insert above waited for.
SELECT login_joins.call_id AS joined, calls.* FROM login_joins LEFT JOIN calls ON calls.id = login_joins.call_id
WHERE digest = :digest

-- name: replace_login_join
UPDATE login_joins SET call_id = :call_id, created_at = clock_ms() WHERE digest = :digest AND call_id = :seen
RETURNING call_id

-- name: take_login_join
DELETE FROM login_joins WHERE digest = :digest AND call_id = :call_id
RETURNING call_id

-- name: forget_login_join
DELETE FROM login_joins WHERE call_id = :call_id

-- name: prune_login_joins
DELETE FROM login_joins WHERE call_id IN (each_of(:ids))

-- name: count_waiting
-- By the index alone; ids sort by time, so the first is the oldest.
SELECT status, count(*) AS calls, min(id) AS oldest FROM calls
WHERE status IN ('waiting', 'pending', 'pending_approval', 'pending_login')
GROUP BY status

-- name: count_unoffered
-- Calls that wait for a tool server. By the index of `calls_to_offer`.
SELECT tool, count(*) AS calls, min(id) AS oldest FROM calls
WHERE status IN ('waiting', 'pending') AND offered_to IS NULL AND tool IN (each_of(:ids)) AND owner IS NULL
    AND source <> 'caller'
GROUP BY tool

-- name: count_offered
SELECT offered_to, count(*) AS calls FROM calls
WHERE status IN ('waiting', 'pending') AND offered_to IS NOT NULL AND offered_to IN (each_of(:ids))
GROUP BY offered_to

-- name: age_of_call
SELECT clock_ms() - created_at AS age_ms FROM calls WHERE id = :id

-- name: repeat_refusal
-- T14, again within a minute: the record that there is counts it, whichever gateway made that.
UPDATE calls SET count = count + :more, finished_at = clock_ms()
WHERE id = (SELECT id FROM calls WHERE status = 'refused' AND principal = :principal AND created_at > clock_ms() - 60000
        AND tool = :tool AND error_code = :error_code AND cycle_id IS NULL
    ORDER BY created_at DESC LIMIT 1)
RETURNING id, clock_ms() - created_at AS age_ms

-- name: refusals_of_minute
SELECT count(*) AS records FROM calls
WHERE status = 'refused' AND principal = :principal AND created_at > clock_ms() - 60000 AND cycle_id IS NULL

-- name: insert_refusal
-- T14: final from the start, and delivered to nobody.
INSERT INTO calls (id, run_id, tool, source, tool_version, kind, arguments, principal, agent, space_id, chat_id,
    status, error_code, error_message, idempotent, attempt, owner, timeout_ms, expires_in_ms, shown, count,
    hooks, trace_id, replay_of, created_at, finished_at)
VALUES (:id, :run_id, :tool, :source, :tool_version, :kind, :arguments, :principal, :agent, :space_id, :chat_id,
    'refused', :error_code, :error_message, :idempotent, 1, :owner, :timeout_ms, :expires_in_ms, :shown, :more,
    :hooks, :trace_id, :replay_of, clock_ms(), clock_ms())
RETURNING *

-- name: count_refusals
UPDATE calls SET count = count + :more, finished_at = clock_ms() WHERE id = :id AND status = 'refused'
RETURNING id

-- name: arrival_of_call
SELECT status, cycle_id, created_at FROM inbox WHERE agent = :agent AND event_id = :event_id
