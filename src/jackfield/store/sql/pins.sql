
-- name: pin_at_first_sight
-- Whoever saw the tool first has the word, at any gateway.
INSERT INTO pins (source, tool, digest, definition, accepted_by, updated_at)
VALUES (:source, :tool, :digest, :definition, NULL, clock_ms())
ON CONFLICT (source, tool) DO NOTHING

-- name: put_pin
INSERT INTO pins (source, tool, digest, definition, accepted_by, updated_at)
VALUES (:source, :tool, :digest, :definition, :accepted_by, clock_ms())
ON CONFLICT (source, tool) DO UPDATE SET digest = excluded.digest, definition = excluded.definition,
    accepted_by = excluded.accepted_by, updated_at = excluded.updated_at

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
