-- Agents, their cycles and inboxes. A transition of a cycle locks its cycle before anything else. None names its row `id`: a
-- batch would sort it behind calls, and T10, which locks calls after their cycle, could then wait for it in a circle.

-- name: insert_inbox_event
-- The unique key makes a second event for one call a fault, never a second delivery.
INSERT INTO inbox (event_id, agent, type, status, not_before, data, created_at)
VALUES (:event_id, :agent, :type, 'pending', :not_before, :data, clock_ms())

-- name: prune_inbox
-- An agent of ours wakes for its events, however late. An outside program (a key `agent:NAME`) marks none as processed,
-- so its events go when they are old, read or not.
DELETE FROM inbox WHERE seq IN (
    SELECT seq FROM inbox WHERE created_at < :before AND (status = 'processed'
        OR (status = 'pending' AND NOT EXISTS (SELECT 1 FROM agents WHERE agents.id = inbox.agent)))
    ORDER BY seq LIMIT :limit)
RETURNING seq

-- name: push_event
-- An event that is there already stays as it is.
INSERT INTO inbox (event_id, agent, type, status, data, created_at)
VALUES (:event_id, :agent, :type, 'pending', :data, clock_ms())
ON CONFLICT (agent, event_id) DO NOTHING
RETURNING seq

-- name: open_cycle
-- T8. The index of open cycles lets one through; that of numbers stops who counted before another's cycle was there.
INSERT INTO runs (id, kind, agent, status, owner, epoch, tries, number, created_at)
SELECT :cycle_id, 'cycle', :agent, 'open', :owner, 1, 1,
    (SELECT COALESCE(MAX(number), 0) + 1 FROM runs WHERE kind = 'cycle' AND agent = :agent), clock_ms()
WHERE EXISTS (SELECT 1 FROM inbox WHERE agent = :agent AND status = 'pending' AND not_before <= clock_ms())
ON CONFLICT DO NOTHING
RETURNING id

-- name: claim_events
-- T8
UPDATE inbox SET status = 'processing', cycle_id = :cycle_id
WHERE agent = :agent AND status = 'pending' AND not_before <= clock_ms()
RETURNING *

-- name: keep_consumed
-- T8
UPDATE runs SET consumed = :consumed WHERE id = :cycle_id RETURNING *

-- name: forget_cycle
-- T8, when what it was opened for was gone.
DELETE FROM runs WHERE id = :cycle_id AND status = 'open'

-- name: hold_cycle
-- T1's guard.
SELECT id FROM runs WHERE id = :cycle_id AND status = 'open' AND epoch = :epoch FOR UPDATE

-- name: hold_open_cycle
-- For who removes the agent.
SELECT * FROM runs WHERE kind = 'cycle' AND agent = :agent AND status = 'open' FOR UPDATE

-- name: insert_step
-- T1
INSERT INTO steps (cycle_id, n, message, created_at) VALUES (:cycle_id, :n, :message, clock_ms())

-- name: insert_builtin_call
-- T1 for a call that was over when it was made. It never had a deadline, and T10 knows it by that.
INSERT INTO calls (id, run_id, tool, source, tool_version, kind, arguments, principal, agent, space_id, chat_id,
    cycle_id, step, idx, status, delivery, result, error_code, error_message, idempotent, attempt, owner,
    timeout_ms, expires_in_ms, shown, asked_arguments, hooks, trace_id, created_at, finished_at)
VALUES (:id, :run_id, :tool, :source, :tool_version, :kind, :arguments, :principal, :agent, :space_id, :chat_id,
    :cycle_id, :step, :idx, :status, 'inline', :result, :error_code, :error_message, :idempotent, 1, :owner,
    :timeout_ms, :expires_in_ms, NULL, :asked_arguments, :hooks, :trace_id, clock_ms(), clock_ms())
RETURNING id, created_at, finished_at

-- name: take_over_cycle
-- T7
UPDATE runs SET owner = :owner, epoch = epoch + 1, tries = tries + 1
WHERE id = :cycle_id AND status = 'open' AND epoch = :seen
    AND NOT EXISTS (SELECT 1 FROM gateways WHERE gateways.id = runs.owner AND gateways.dead = 0)
RETURNING *

-- name: commit_cycle
-- T9, with the cycle's record.
UPDATE runs SET status = 'done', summary = :summary, input_tokens = :input_tokens, output_tokens = :output_tokens,
    finished_at = clock_ms()
WHERE id = :cycle_id AND status = 'open' AND epoch = :epoch
RETURNING *

-- name: put_consciousness
-- T9
INSERT INTO consciousness (agent, version, data, updated_at) VALUES (:agent, 1, :data, clock_ms())
ON CONFLICT (agent) DO UPDATE SET version = consciousness.version + 1, data = excluded.data,
    updated_at = excluded.updated_at

-- name: process_events
-- T9
UPDATE inbox SET status = 'processed' WHERE cycle_id = :cycle_id AND status = 'processing'

-- name: abandon_cycle
-- T10
UPDATE runs SET status = 'failed', reason = :reason, finished_at = clock_ms()
WHERE id = :cycle_id AND status = 'open' AND epoch = :epoch
RETURNING *

-- name: stop_cycle
-- T10 for a cycle that somebody stops: at any gateway, whoever has it in hand.
UPDATE runs SET status = 'failed', stop_wanted = 1, reason = :reason, finished_at = clock_ms()
WHERE id = :cycle_id AND kind = 'cycle' AND status = 'open'
RETURNING *

-- name: events_to_try_again
-- Of a cycle that was stopped, its own; of one that was abandoned, what it gave back, until a later cycle takes it.
SELECT inbox.seq, inbox.agent FROM inbox JOIN runs ON runs.id = :cycle_id AND runs.status = 'failed'
WHERE inbox.agent = runs.agent AND (
    (runs.stop_wanted = 1 AND inbox.status = 'processed' AND inbox.cycle_id = runs.id)
    OR (runs.stop_wanted = 0 AND inbox.status = 'pending' AND inbox.not_before > clock_ms()
        AND NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.kind = 'cycle' AND later.agent = runs.agent
            AND later.number > runs.number)))

-- name: give_event_now
UPDATE inbox SET status = 'pending', cycle_id = NULL, not_before = 0
WHERE seq = :seq AND status IN ('pending', 'processed')
RETURNING agent

-- name: hold_calls_of_cycle
-- T10: whoever settles one of them did so before, or waits until its outcome has a way to the agent.
SELECT id FROM calls WHERE cycle_id = :cycle_id ORDER BY id FOR UPDATE

-- name: flip_calls_of_cycle
-- T10, as T3: nobody waits any more.
UPDATE calls SET status = 'pending', delivery = 'inbox', first_reply = 'timeout', expires_at = clock_ms() + NULLIF(expires_in_ms, 0)
WHERE cycle_id = :cycle_id AND status = 'waiting'
RETURNING *

-- name: decide_calls_of_cycle
-- T10, for what still runs.
UPDATE calls SET delivery = 'inbox' WHERE cycle_id = :cycle_id AND delivery IS NULL

-- name: give_outcomes_of_cycle
-- T10, for what only the failed cycle was told. What never had a deadline is a built-in, and stands.
UPDATE calls SET delivery = 'inbox' WHERE cycle_id = :cycle_id AND delivery = 'inline' AND deadline IS NOT NULL
RETURNING *

-- name: give_events_back
-- T10
UPDATE inbox SET status = 'pending', cycle_id = NULL, not_before = :not_before
WHERE cycle_id = :cycle_id AND status = 'processing'

-- name: get_cycle
SELECT * FROM runs WHERE id = :cycle_id

-- name: cycles_of_agent
SELECT * FROM runs WHERE kind = 'cycle' AND agent = :agent AND number < :before ORDER BY number DESC LIMIT :limit

-- name: orphaned_cycles
-- What T7 is for. In the order of the index of open cycles, or every round would look at all cycles there ever were.
SELECT runs.* FROM runs LEFT JOIN gateways ON gateways.id = runs.owner
WHERE runs.kind = 'cycle' AND runs.status = 'open' AND (gateways.id IS NULL OR gateways.dead = 1)
ORDER BY runs.agent LIMIT :limit

-- name: open_cycles_of
-- In the same order, for the same reason.
SELECT * FROM runs WHERE kind = 'cycle' AND status = 'open' AND owner = :owner ORDER BY agent LIMIT :limit

-- name: agents_to_wake
-- What T8 is for; who has waited longest comes first. An agent that is gone or switched off sleeps. It is asked every
-- second, and inboxes that no agent of ours empties may be long: so from name to name, one look each.
WITH RECURSIVE names (agent) AS (
    SELECT MIN(agent) FROM inbox WHERE status = 'pending'
    UNION ALL
    SELECT (SELECT MIN(inbox.agent) FROM inbox WHERE inbox.status = 'pending' AND inbox.agent > names.agent)
    FROM names WHERE names.agent IS NOT NULL)
SELECT agent FROM (
    SELECT names.agent, (SELECT seq FROM inbox WHERE inbox.agent = names.agent AND inbox.status = 'pending'
        AND inbox.not_before <= clock_ms() ORDER BY seq LIMIT 1) AS first_seq
    FROM names JOIN agents ON agents.id = names.agent AND agents.enabled = 1
    WHERE NOT EXISTS (SELECT 1 FROM runs
        WHERE runs.kind = 'cycle' AND runs.agent = names.agent AND runs.status = 'open')) AS waiting
WHERE first_seq IS NOT NULL ORDER BY first_seq LIMIT :limit

-- name: pending_events
-- What the agent will find in its inbox when its open cycle is over.
SELECT * FROM inbox WHERE agent = :agent AND status = 'pending' AND not_before <= clock_ms() ORDER BY seq LIMIT :limit

-- name: count_pending_events
SELECT COUNT(*) AS total FROM inbox WHERE agent = :agent AND status = 'pending' AND not_before <= clock_ms()

-- name: events_of_cycle
SELECT * FROM inbox WHERE cycle_id = :cycle_id ORDER BY seq

-- name: steps_of_cycle
SELECT n, message, created_at FROM steps WHERE cycle_id = :cycle_id ORDER BY n

-- name: calls_of_cycle
SELECT * FROM calls WHERE cycle_id = :cycle_id ORDER BY step, idx

-- name: prune_cycles
-- An agent's last one stays: the next is counted from it.
WITH old AS MATERIALIZED (
    SELECT id FROM runs WHERE finished_at < :before AND kind = 'cycle'
        AND EXISTS (SELECT 1 FROM runs AS later WHERE later.kind = 'cycle' AND later.agent = runs.agent
            AND later.number > runs.number)
    ORDER BY finished_at LIMIT :limit FOR UPDATE SKIP LOCKED)
DELETE FROM runs WHERE id IN (SELECT id FROM old)
RETURNING id

-- name: prune_steps
DELETE FROM steps WHERE cycle_id IN (each_of(:ids))

-- name: get_consciousness
SELECT version, data FROM consciousness WHERE agent = :agent

-- name: put_agent
-- Whoever made it stays its owner, whoever changes it; one of the config has none.
INSERT INTO agents (id, definition, origin, enabled, owner, created_at, updated_at)
VALUES (:agent, :definition, :origin, :enabled, :owner, clock_ms(), clock_ms())
ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, origin = excluded.origin, enabled = excluded.enabled,
    owner = CASE WHEN excluded.origin = 'api' THEN COALESCE(agents.owner, excluded.owner) END,
    updated_at = excluded.updated_at
RETURNING *

-- name: get_agent
SELECT * FROM agents WHERE id = :agent

-- name: all_agents
SELECT * FROM agents ORDER BY id

-- name: delete_agent
DELETE FROM agents WHERE id = :agent RETURNING id

-- name: retire_config_agents
-- What the config no longer has sleeps, with all it knew, until the config has it again.
UPDATE agents SET enabled = 0, updated_at = clock_ms()
WHERE origin = 'config' AND enabled = 1 AND id NOT IN (each_of(:ids))
RETURNING id

-- name: put_memory
INSERT INTO memories (agent, key, value, updated_at) VALUES (:agent, :key, :value, clock_ms())
ON CONFLICT (agent, key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at

-- name: memories_of
SELECT * FROM memories WHERE agent = :agent ORDER BY key

-- name: memories_among
SELECT * FROM memories WHERE agent = :agent AND key IN (each_of(:ids)) ORDER BY key

-- name: delete_memories
DELETE FROM memories WHERE agent = :agent AND key IN (each_of(:ids)) RETURNING key

-- name: delete_other_memories
DELETE FROM memories WHERE agent = :agent AND key NOT IN (each_of(:ids))

-- name: hold_goals
SELECT * FROM goals WHERE agent = :agent ORDER BY id FOR UPDATE

-- name: goals_of
SELECT * FROM goals WHERE agent = :agent ORDER BY priority DESC, created_at, id

-- name: put_goal
INSERT INTO goals (id, agent, description, status, priority, created_at, updated_at)
VALUES (:goal_id, :agent, :description, :status, :priority, clock_ms(), clock_ms())
ON CONFLICT (id) DO UPDATE SET description = excluded.description, status = excluded.status,
    priority = excluded.priority, updated_at = excluded.updated_at
RETURNING *

-- name: delete_goals
DELETE FROM goals WHERE agent = :agent AND id IN (each_of(:ids)) RETURNING id

-- name: delete_other_goals
DELETE FROM goals WHERE agent = :agent AND id NOT IN (each_of(:ids))

-- name: hold_plans
SELECT * FROM plans WHERE agent = :agent ORDER BY id FOR UPDATE

-- name: plans_of
SELECT * FROM plans WHERE agent = :agent ORDER BY created_at, id

-- name: put_plan
INSERT INTO plans (id, agent, name, instruction, cron, time_zone, scheduled_at, next_run_at, status, created_at,
    updated_at)
VALUES (:plan_id, :agent, :name, :instruction, :cron, :time_zone, :scheduled_at, :next_run_at, :status, clock_ms(),
    clock_ms())
ON CONFLICT (id) DO UPDATE SET name = excluded.name, instruction = excluded.instruction, cron = excluded.cron,
    time_zone = excluded.time_zone, scheduled_at = excluded.scheduled_at, next_run_at = excluded.next_run_at,
    status = excluded.status, updated_at = excluded.updated_at
RETURNING *

-- name: delete_plans
DELETE FROM plans WHERE agent = :agent AND id IN (each_of(:ids)) RETURNING id

-- name: delete_other_plans
DELETE FROM plans WHERE agent = :agent AND id NOT IN (each_of(:ids))

-- name: due_plans
-- The first conditions are the index's own, word for word, or SQLite would not use it.
SELECT plans.* FROM plans JOIN agents ON agents.id = plans.agent AND agents.enabled = 1
WHERE plans.status = 'active' AND plans.next_run_at IS NOT NULL AND plans.next_run_at <= clock_ms()
ORDER BY plans.next_run_at, plans.id LIMIT :limit

-- name: next_plan
SELECT MIN(plans.next_run_at) AS next_run_at FROM plans JOIN agents ON agents.id = plans.agent AND agents.enabled = 1
WHERE plans.status = 'active' AND plans.next_run_at IS NOT NULL

-- name: fire_plan
-- Once for each time it is due, by whichever gateway is first.
UPDATE plans SET next_run_at = :next_run_at, last_run_at = clock_ms(), updated_at = clock_ms(),
    status = CASE WHEN CAST(:next_run_at AS BIGINT) IS NULL THEN 'done' ELSE status END
WHERE id = :plan_id AND status = 'active' AND next_run_at = :due
RETURNING agent, name, instruction

-- name: forget_done_plans
WITH old AS MATERIALIZED (
    SELECT id FROM plans WHERE agent = :agent AND status = 'done'
    ORDER BY last_run_at DESC, id DESC LIMIT 1000 OFFSET :kept FOR UPDATE SKIP LOCKED)
DELETE FROM plans WHERE id IN (SELECT id FROM old)

-- name: delete_all_memories
DELETE FROM memories WHERE agent = :agent

-- name: delete_all_goals
DELETE FROM goals WHERE agent = :agent

-- name: delete_all_plans
DELETE FROM plans WHERE agent = :agent

-- name: delete_consciousness
DELETE FROM consciousness WHERE agent = :agent

-- name: delete_inbox
DELETE FROM inbox WHERE agent = :agent

-- name: inbox_page
SELECT * FROM inbox WHERE agent = :agent AND seq > :after ORDER BY seq LIMIT :limit

-- name: inbox_page_with_status
SELECT * FROM inbox WHERE agent = :agent AND seq > :after AND status = :status ORDER BY seq LIMIT :limit

-- name: last_cycles
-- Each agent's last one.
SELECT runs.* FROM agents JOIN runs ON runs.kind = 'cycle' AND runs.agent = agents.id
WHERE runs.number = (SELECT MAX(number) FROM runs AS every WHERE every.kind = 'cycle' AND every.agent = agents.id)
