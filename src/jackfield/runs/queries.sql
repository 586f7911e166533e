-- Responses and programs in the journal. A transition locks its run before anything else, and names it `run`: a batch
-- would sort a row named `id` among calls, whose answers come to their run after the call.

-- name: insert_run
-- T8 for a response or a program: it waits for its first turn, or is begun by whoever inserts it.
INSERT INTO runs (id, kind, principal, status, owner, epoch, tries, request, created_at)
VALUES (:run, :kind, :principal, :status, :owner, 1, 1, :request, clock_ms())
ON CONFLICT (id) DO NOTHING
RETURNING *

-- name: claim_run
-- Of what nobody has in hand, one gateway takes it. Its tries begin anew: it was let go of, and did not fail.
UPDATE runs SET status = 'open', owner = :owner, epoch = epoch + 1, tries = 1, parked_at = NULL, wake_at = NULL
WHERE id = :run AND status IN ('queued', 'ready')
RETURNING *

-- name: seize_run
-- The same by who ends it, whatever it waits for.
UPDATE runs SET status = 'open', owner = :owner, epoch = epoch + 1, tries = 1, parked_at = NULL, wake_at = NULL
WHERE id = :run AND status IN ('queued', 'parked', 'ready')
RETURNING *

-- name: hold_run
-- The guard of whatever only the owner writes, beside T1.
SELECT id FROM runs WHERE id = :run AND status = 'open' AND epoch = :epoch FOR UPDATE

-- name: note_step
-- T1, with its guard: so many more calls are awaited. A step is progress, so its tries begin anew.
UPDATE runs SET awaited = awaited + :awaited, tries = 1, input_tokens = input_tokens + :input_tokens,
    output_tokens = output_tokens + :output_tokens
WHERE id = :run AND status = 'open' AND epoch = :epoch
RETURNING id

-- name: answer_and_note_step
-- T2 and T1 for the run in one: an answer is counted, and the step that followed from it noted. The row is named as in
-- `answer_run`, because it is locked after the call's.
UPDATE runs SET awaited = awaited - 1 + :awaited, answered = answered + 1, tries = 1
WHERE id = :journal_id AND status = 'open' AND epoch = :epoch
RETURNING answered

-- name: park_run
-- T13 for a run: nobody has it in hand. Where the last answer came before, it is ready at once.
UPDATE runs SET status = CASE WHEN awaited = 0 AND :asleep = 0 THEN 'ready' ELSE 'parked' END, owner = NULL, parked_at = clock_ms(),
    wake_at = clock_ms() + :wake_ms
WHERE id = :run AND status = 'open' AND epoch = :epoch
RETURNING *

-- name: parked_runs_to_wake
SELECT id FROM runs WHERE status = 'parked' AND wake_at IS NOT NULL AND wake_at <= clock_ms() LIMIT 1

-- name: wake_parked_runs
-- Those whose time has come: they go on though nobody has answered.
UPDATE runs SET status = 'ready' WHERE status = 'parked' AND wake_at IS NOT NULL AND wake_at <= clock_ms()
RETURNING id

-- name: take_over_run
-- T7
UPDATE runs SET owner = :owner, epoch = epoch + 1, tries = tries + 1
WHERE id = :run AND status = 'open' AND epoch = :epoch
    AND NOT EXISTS (SELECT 1 FROM gateways WHERE gateways.id = runs.owner AND gateways.dead = 0)
RETURNING *

-- name: end_run
-- T9 and T10. What it was asked for is kept where it may be resumed.
UPDATE runs SET status = :status, reason = :reason, finished_at = clock_ms(),
    input_tokens = COALESCE(:input_tokens, input_tokens), output_tokens = COALESCE(:output_tokens, output_tokens),
    request = CASE WHEN :status = 'failed' THEN request END
WHERE id = :run AND status = 'open' AND epoch = :epoch
RETURNING *

-- name: resume_run
-- A run that failed goes on from its journal. Calls that it did not wait for any more may be open still, or again.
UPDATE runs SET status = CASE WHEN awaited = 0 THEN 'ready' ELSE 'parked' END, owner = NULL, reason = NULL,
    finished_at = NULL, stop_wanted = 0, tries = 1, parked_at = clock_ms()
WHERE id = :run AND status = 'failed'
RETURNING *

-- name: want_run_stopped
UPDATE runs SET stop_wanted = 1 WHERE id = :run AND finished_at IS NULL RETURNING *

-- name: get_run
SELECT * FROM runs WHERE id = :run

-- name: runs_to_claim
-- Of each principal the one that has waited longest; who has fewest at work comes first. From name to name by the index,
-- since one of them may have thousands waiting.
WITH RECURSIVE names (principal) AS (
    SELECT MIN(principal) FROM runs WHERE status IN ('queued', 'ready') AND kind = :kind
    UNION ALL
    SELECT (SELECT MIN(runs.principal) FROM runs WHERE runs.status IN ('queued', 'ready') AND runs.kind = :kind
        AND runs.principal > names.principal)
    FROM names WHERE names.principal IS NOT NULL)
SELECT (SELECT MIN(runs.id) FROM runs WHERE runs.status IN ('queued', 'ready') AND runs.kind = :kind
        AND runs.principal = names.principal) AS id,
    (SELECT COUNT(*) FROM runs WHERE runs.status = 'open' AND runs.kind <> 'cycle' AND runs.kind = :kind
        AND runs.principal = names.principal) AS at_work
FROM names WHERE names.principal IS NOT NULL
ORDER BY at_work, id LIMIT :limit

-- name: orphaned_runs
-- What T7 is for.
SELECT runs.* FROM runs LEFT JOIN gateways ON gateways.id = runs.owner
WHERE runs.status = 'open' AND runs.kind <> 'cycle' AND runs.kind = :kind AND (gateways.id IS NULL OR gateways.dead = 1)
ORDER BY runs.principal LIMIT :limit

-- name: answered_calls_of_run
-- In the order in which they were answered: what a program is given again.
SELECT * FROM calls WHERE cycle_id = :run AND answer IS NOT NULL ORDER BY answer

-- name: open_calls_of_run
SELECT id FROM calls WHERE cycle_id = :run
    AND status IN ('running', 'waiting', 'pending', 'pending_approval', 'pending_login') ORDER BY id

-- name: delete_run
DELETE FROM runs WHERE id = :run

-- name: delete_steps
DELETE FROM steps WHERE cycle_id = :run

-- name: prune_runs
WITH old AS MATERIALIZED (
    SELECT id FROM runs WHERE finished_at < :before AND kind <> 'cycle'
    ORDER BY finished_at LIMIT :limit FOR UPDATE SKIP LOCKED)
DELETE FROM runs WHERE id IN (SELECT id FROM old)
RETURNING id

-- name: put_model_step
-- A step that is asked for again, by whoever took the run over, takes the place of what is no part of the run.
INSERT INTO model_steps (run_id, n, model, asked_at, first_at, answered_at, retries, finish, error_code, error_message,
    input_tokens, output_tokens, cached_tokens, cost, messages)
VALUES (:run_id, :n, :model, clock_ms() - :asked_ms, clock_ms() - :first_ms, clock_ms() - :answered_ms, :retries,
    :finish, :error_code, :error_message, :input_tokens, :output_tokens, :cached_tokens, :cost, :messages)
ON CONFLICT (run_id, n) DO UPDATE SET model = excluded.model, asked_at = excluded.asked_at,
    first_at = excluded.first_at, answered_at = excluded.answered_at, retries = excluded.retries,
    finish = excluded.finish, error_code = excluded.error_code, error_message = excluded.error_message,
    input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    cached_tokens = excluded.cached_tokens, cost = excluded.cost, messages = excluded.messages

-- name: model_steps_of
SELECT * FROM model_steps WHERE run_id = :run_id ORDER BY n

-- name: last_model_step
SELECT MAX(n) AS n FROM model_steps WHERE run_id = :run_id

-- name: model_step_totals
SELECT run_id, COUNT(*) AS steps, MAX(model) AS model, SUM(input_tokens) AS input_tokens,
    SUM(output_tokens) AS output_tokens, SUM(cached_tokens) AS cached_tokens, SUM(cost) AS cost,
    SUM(answered_at - asked_at) AS model_ms
FROM model_steps WHERE run_id IN (each_of(:ids)) GROUP BY run_id

-- name: delete_model_steps
DELETE FROM model_steps WHERE run_id IN (each_of(:ids))

-- name: calls_of_run_id
-- The newest of the calls that a run made itself; those of programs in it are theirs.
SELECT * FROM calls WHERE run_id = :run_id AND (cycle_id IS NULL OR cycle_id NOT LIKE 'prog!_%' ESCAPE '!')
ORDER BY id DESC LIMIT :limit
