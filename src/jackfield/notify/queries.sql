-- name: insert_notification
-- In the transaction that causes it. What has a key is told once, whoever sees it happen.
INSERT INTO outbox (id, target, type, event_key, data, status, attempts, next_at, since, created_at)
VALUES (:id, :target, :type, :event_key, :data, 'pending', 0, clock_ms(), clock_ms(), clock_ms())
ON CONFLICT (target, event_key) DO NOTHING
RETURNING id

-- name: claim_target
-- One gateway delivers to a target, until it lets go of it or is dead.
INSERT INTO outbox_targets (name, owner) VALUES (:target, :owner)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner
WHERE outbox_targets.owner IS NULL OR outbox_targets.owner = excluded.owner
    OR outbox_targets.owner NOT IN (SELECT id FROM gateways WHERE dead = 0)
RETURNING name

-- name: release_target
UPDATE outbox_targets SET owner = NULL WHERE name = :target AND owner = :owner RETURNING name

-- name: next_notifications
SELECT *, clock_ms() AS now FROM outbox WHERE status = 'pending' AND target = :target ORDER BY seq LIMIT :limit

-- name: note_delivered
-- Only by the gateway that delivers to the target.
UPDATE outbox SET status = 'delivered', attempts = attempts + 1, error = NULL, finished_at = clock_ms()
WHERE id = :id AND status = 'pending'
    AND EXISTS (SELECT 1 FROM outbox_targets WHERE name = outbox.target AND owner = :owner)
RETURNING id

-- name: note_undelivered
-- Tried again after a pause; not any more where the target refused it for good, or it has been tried for long enough.
UPDATE outbox SET attempts = attempts + 1, error = :error, next_at = clock_ms() + :pause_ms,
    status = CASE WHEN :is_refused = 1 OR clock_ms() - since >= :give_up_ms THEN 'failed' ELSE 'pending' END,
    finished_at = CASE WHEN :is_refused = 1 OR clock_ms() - since >= :give_up_ms THEN clock_ms() END
WHERE id = :id AND status = 'pending'
    AND EXISTS (SELECT 1 FROM outbox_targets WHERE name = outbox.target AND owner = :owner)
RETURNING *

-- name: get_notification
SELECT * FROM outbox WHERE id = :id

-- name: retry_notification
UPDATE outbox SET status = 'pending', attempts = 0, next_at = clock_ms(), since = clock_ms(), finished_at = NULL
WHERE id = :id AND status = 'failed'
RETURNING *

-- name: outbox_depths
SELECT target, count(*) AS waiting, clock_ms() - min(created_at) AS oldest_ms FROM outbox
WHERE status = 'pending' GROUP BY target

-- name: count_failed_notifications
SELECT target, count(*) AS failed FROM outbox WHERE status = 'failed' GROUP BY target

-- name: prune_outbox
-- Ids carry their time. What was retried has begun anew.
DELETE FROM outbox WHERE id IN (
    SELECT id FROM outbox WHERE id < :before_id AND since < :before ORDER BY id LIMIT :limit)
RETURNING id

-- name: hold_source_told
-- The row that says that a source was told to be down is there, and nobody else changes it meanwhile.
SELECT source FROM sources_down WHERE source = :source AND gateway = '' FOR UPDATE

-- name: tell_source_down
INSERT INTO sources_down (source, gateway) VALUES (:source, '') ON CONFLICT (source, gateway) DO NOTHING
RETURNING source

-- name: note_source_down
INSERT INTO sources_down (source, gateway) VALUES (:source, :gateway) ON CONFLICT (source, gateway) DO NOTHING

-- name: note_source_up
-- What a dead gateway found is nothing any more.
DELETE FROM sources_down WHERE source = :source
    AND (gateway = :gateway OR (gateway <> '' AND gateway NOT IN (SELECT id FROM gateways WHERE dead = 0)))

-- name: tell_source_up
-- Where no gateway finds it down any more.
DELETE FROM sources_down WHERE source = :source AND gateway = ''
    AND NOT EXISTS (SELECT 1 FROM sources_down AS found WHERE found.source = :source AND found.gateway <> '')
RETURNING source

-- name: forget_source_down
DELETE FROM sources_down WHERE source = :source
