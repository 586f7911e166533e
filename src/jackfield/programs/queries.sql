-- name: park_program_call
-- T13 for a program's call: it waits for an inner one, and no gateway holds anything. Whoever waits for it is told so.
UPDATE calls SET status = 'pending', delivery = CASE WHEN awaited_by IS NULL THEN 'inbox' END, first_reply = 'pending',
    expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE id = :id AND status = 'waiting'
RETURNING *

-- name: program_answers_after
-- In the order in which they were answered.
SELECT * FROM calls WHERE cycle_id = :run AND answer > :after ORDER BY answer

-- name: open_statuses_of_program
SELECT id, status FROM calls WHERE cycle_id = :run
    AND status IN ('running', 'waiting', 'pending', 'pending_approval', 'pending_login')

-- name: programs_without_call
-- Programs that nobody has in hand and whose call is over: cancelled, or expired. A program's id is its call's, with a prefix.
SELECT runs.id FROM runs LEFT JOIN calls ON calls.id = substr(runs.id, 6)
WHERE runs.kind = 'program' AND runs.status IN ('queued', 'parked', 'ready')
    AND (calls.id IS NULL OR calls.status IN ('completed', 'failed', 'rejected', 'expired', 'cancelled'))
LIMIT :limit
