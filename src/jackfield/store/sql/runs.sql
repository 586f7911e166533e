-- What made calls, newest first: ids begin with their kind and go on with the time.

-- name: newest_cycles
SELECT * FROM cycles WHERE id < :cursor ORDER BY id DESC LIMIT :limit

-- name: newest_cycles_among
SELECT * FROM cycles WHERE id < :cursor AND agent IN (each_of(:ids)) ORDER BY id DESC LIMIT :limit

-- name: newest_responses
SELECT id, principal, status, created_at, finished_at FROM responses WHERE id < :cursor ORDER BY id DESC LIMIT :limit

-- name: newest_responses_of
SELECT id, principal, status, created_at, finished_at FROM responses
WHERE id < :cursor AND principal = :principal ORDER BY id DESC LIMIT :limit

-- name: last_cycles
-- Each agent's last one.
SELECT cycles.* FROM agents JOIN cycles ON cycles.agent = agents.id
WHERE cycles.number = (SELECT MAX(number) FROM cycles AS every WHERE every.agent = agents.id)
