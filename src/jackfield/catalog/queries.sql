-- name: put_preference
INSERT INTO preferences (principal, chat_id, scenario, tool, by_admin, enabled, approval)
VALUES (:principal, :chat_id, :scenario, :tool, :by_admin, :enabled, :approval)
ON CONFLICT (principal, chat_id, scenario, tool, by_admin) DO UPDATE SET
    enabled = CASE WHEN CAST(:sets_enabled AS BIGINT) = 1 THEN excluded.enabled ELSE preferences.enabled END,
    approval = CASE WHEN CAST(:sets_approval AS BIGINT) = 1 THEN excluded.approval ELSE preferences.approval END

-- name: delete_preference
DELETE FROM preferences
WHERE principal = :principal AND chat_id = :chat_id AND scenario = :scenario AND tool = :tool AND by_admin = :by_admin
RETURNING tool

-- name: all_preferences
SELECT * FROM preferences

-- name: pin_at_first_sight
-- Whoever saw the tool first has the word, at any gateway.
INSERT INTO pins (source, tool, digest, definition, accepted_by, updated_at)
VALUES (:source, :tool, :digest, :definition, NULL, clock_ms())
ON CONFLICT (source, tool) DO NOTHING

-- name: put_pin
INSERT INTO pins (source, tool, digest, definition, accepted_by, updated_at)
VALUES (:source, :tool, :digest, :definition, :accepted_by, clock_ms())
ON CONFLICT (source, tool) DO UPDATE SET digest = excluded.digest, definition = excluded.definition,
    accepted_by = excluded.accepted_by, updated_at = excluded.updated_at,
    refused = NULL, refused_by = NULL, refused_at = NULL

-- name: refuse_definition
-- One that is new has no pin yet, or one to nothing.
INSERT INTO pins (source, tool, digest, definition, accepted_by, updated_at, refused, refused_by, refused_at)
VALUES (:source, :tool, '', '', NULL, clock_ms(), :refused, :refused_by, clock_ms())
ON CONFLICT (source, tool) DO UPDATE SET refused = excluded.refused, refused_by = excluded.refused_by,
    refused_at = excluded.refused_at

-- name: all_refused
SELECT source, tool, refused, refused_by, refused_at FROM pins WHERE refused IS NOT NULL

-- name: all_pins
SELECT source, tool, digest FROM pins

-- name: get_pin
SELECT source, tool, digest, definition, accepted_by, updated_at FROM pins WHERE source = :source AND tool = :tool

-- name: all_names
SELECT source, tool, name, wish, is_foreign FROM names

-- name: free_name
DELETE FROM names WHERE source = :source AND tool = :tool AND name = :name

-- name: take_name
-- Whoever has the name, or gave the tool another, at any gateway, was first.
INSERT INTO names (source, tool, name, wish, is_foreign) VALUES (:source, :tool, :name, :wish, :is_foreign)
ON CONFLICT DO NOTHING

-- name: all_groups
SELECT * FROM tool_groups ORDER BY name

-- name: put_group
INSERT INTO tool_groups (name, tools, description, instructions, updated_by, updated_at)
VALUES (:name, :tools, :description, :instructions, :updated_by, clock_ms())
ON CONFLICT (name) DO UPDATE SET tools = excluded.tools, description = excluded.description,
    instructions = excluded.instructions, updated_by = excluded.updated_by, updated_at = excluded.updated_at

-- name: delete_group
DELETE FROM tool_groups WHERE name = :name RETURNING *

-- name: open_spending
-- Locks the row until the commit: one gateway after the other takes from a limit.
INSERT INTO spending (id, slots, writes, updated_at) VALUES (:id, '{}', 1, clock_ms())
ON CONFLICT (id) DO UPDATE SET writes = spending.writes + 1, updated_at = clock_ms()
RETURNING id, slots, updated_at AS now

-- name: put_spending
UPDATE spending SET slots = :slots WHERE id = :id

-- name: all_spending
SELECT id, slots, clock_ms() AS now FROM spending

-- name: prune_spending
DELETE FROM spending WHERE updated_at < clock_ms() - 7200000

-- name: count_gateways
SELECT COUNT(*) AS gateways FROM gateways WHERE dead = 0

-- name: all_switches
SELECT * FROM switches ORDER BY kind, title

-- name: put_switch
INSERT INTO switches (kind, source, name, title, reason, switched_by, switched_at)
VALUES (:kind, :source, :name, :title, :reason, :switched_by, clock_ms())
ON CONFLICT (kind, source, name) DO UPDATE SET title = excluded.title, reason = excluded.reason,
    switched_by = excluded.switched_by, switched_at = excluded.switched_at
RETURNING *

-- name: delete_switch
DELETE FROM switches WHERE kind = :kind AND source = :source AND name = :name RETURNING *
