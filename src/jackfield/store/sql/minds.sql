-- What agents are and keep in mind. None names its row `id`: a batch would sort it among calls.

-- name: put_agent
INSERT INTO agents (id, definition, origin, enabled, created_at, updated_at)
VALUES (:agent, :definition, :origin, :enabled, clock_ms(), clock_ms())
ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, origin = excluded.origin, enabled = excluded.enabled,
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
DELETE FROM plans WHERE id IN (
    SELECT id FROM plans WHERE agent = :agent AND status = 'done'
    ORDER BY last_run_at DESC, id DESC LIMIT 1000 OFFSET :kept FOR UPDATE SKIP LOCKED)

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
