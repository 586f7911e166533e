-- name: park_program_call
-- T13 for a program's call: it waits for an inner one, and no gateway holds anything. Whoever waits for it is told so.
UPDATE calls SET status = 'pending', delivery = CASE WHEN awaited_by IS NULL THEN 'inbox' END, first_reply = 'pending',
    expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE id = :id AND status = 'waiting'
RETURNING *

-- name: extend_program_call
-- It stays open longer than any call that its program waits for, and for ever where the operator lets one of those wait
-- for ever. Sleeping does not prolong it.
UPDATE calls SET expires_at = CASE WHEN EXISTS (
        SELECT 1 FROM calls AS made WHERE made.cycle_id = :run AND made.expires_at IS NULL
            AND made.status IN ('pending', 'pending_approval', 'pending_login')) THEN NULL
    ELSE (SELECT MAX(moment) FROM (
        SELECT calls.expires_at AS moment
        UNION ALL SELECT made.expires_at + :spare_ms FROM calls AS made WHERE made.cycle_id = :run
            AND made.status IN ('pending', 'pending_approval', 'pending_login')) AS moments) END
WHERE id = :id AND status = 'pending' AND expires_at IS NOT NULL
RETURNING id

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
