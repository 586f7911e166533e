-- name: insert_response
INSERT INTO responses (id, principal, status, previous_id, resource, input, output, owner, is_background, created_at)
VALUES (:id, :principal, :status, :previous_id, :resource, :input, '[]', :owner, :is_background, clock_ms())

-- name: settle_response
-- Once: by the gateway that makes it, or by whoever finds that this gateway is dead.
UPDATE responses SET status = :status, resource = :resource, output = :output, finished_at = clock_ms()
WHERE id = :id AND finished_at IS NULL
RETURNING id

-- name: own_response
UPDATE responses SET owner = :owner WHERE id = :run

-- name: reopen_response
-- One that failed goes on, in the background whatever it was before.
UPDATE responses SET status = 'in_progress', resource = :resource, output = '[]', is_background = 1, stop_wanted = 0,
    finished_at = NULL
WHERE id = :run

-- name: get_response
-- One in the background with a run is no orphan: whoever takes the run over goes on with it.
SELECT responses.*, runs.status AS run_status,
    CASE WHEN responses.finished_at IS NULL AND (gateways.id IS NULL OR gateways.dead = 1)
        AND (runs.id IS NULL OR responses.is_background = 0) THEN 1 ELSE 0 END AS is_orphan
FROM responses LEFT JOIN gateways ON gateways.id = responses.owner LEFT JOIN runs ON runs.id = responses.id
WHERE responses.id = :id

-- name: response_chain
-- A response and all that came before it, the first first.
WITH RECURSIVE chain AS (
    SELECT id, previous_id, input, output, 0 AS depth FROM responses WHERE id = :id
    UNION ALL
    SELECT earlier.id, earlier.previous_id, earlier.input, earlier.output, chain.depth + 1
    FROM responses AS earlier JOIN chain ON earlier.id = chain.previous_id)
SELECT id, previous_id, input, output FROM chain ORDER BY depth DESC

-- name: response_with_item
-- The newest response of a key that was begun in this time and has an item of this id.
SELECT id, previous_id, input, output FROM responses
WHERE id >= :first AND id <= :last AND principal = :principal AND (output LIKE :item OR input LIKE :item)
ORDER BY id DESC LIMIT 1

-- name: want_response_stopped
UPDATE responses SET stop_wanted = 1 WHERE id = :id AND finished_at IS NULL RETURNING id

-- name: delete_response
DELETE FROM responses WHERE id = :id RETURNING id

-- name: delete_response_events
DELETE FROM response_events WHERE response_id IN (each_of(:ids))

-- name: append_response_events
INSERT INTO response_events (response_id, first, last, events) VALUES (:id, :first, :last, :events)

-- name: last_response_events
SELECT first, last, events FROM response_events WHERE response_id = :id ORDER BY first DESC LIMIT 1

-- name: rewrite_response_events
UPDATE response_events SET events = :events WHERE response_id = :id AND first = :first

-- name: response_events_after
SELECT first, last, events FROM response_events WHERE response_id = :id AND last > :after ORDER BY first LIMIT :limit

-- name: prune_responses
-- One that others continue stays as long as they do; one that is being made stays as long as its gateway lives.
WITH old AS MATERIALIZED (
    SELECT id FROM responses WHERE id < :before_id
        AND NOT EXISTS (SELECT 1 FROM responses AS later WHERE later.previous_id = responses.id)
        AND (finished_at IS NOT NULL
            OR (NOT EXISTS (SELECT 1 FROM gateways WHERE gateways.id = responses.owner AND gateways.dead = 0)
                AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = responses.id AND runs.finished_at IS NULL)))
    ORDER BY id LIMIT :limit FOR UPDATE SKIP LOCKED)
DELETE FROM responses WHERE id IN (SELECT id FROM old)
RETURNING id
