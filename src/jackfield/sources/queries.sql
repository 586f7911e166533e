-- name: put_tool
INSERT INTO tools (name, definition, created_by, updated_at) VALUES (:name, :definition, :created_by, clock_ms())
ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, updated_at = excluded.updated_at
    WHERE CAST(:replace AS BIGINT) = 1
RETURNING name

-- name: delete_tool
DELETE FROM tools WHERE name = :name RETURNING name

-- name: all_tools
SELECT name, definition FROM tools ORDER BY name

-- name: put_declaration
-- A source belongs to the key that declared it first.
INSERT INTO declarations (source, principal, definitions, updated_at)
VALUES (:source, :principal, :definitions, clock_ms())
ON CONFLICT (source) DO UPDATE SET definitions = excluded.definitions, updated_at = excluded.updated_at
    WHERE declarations.principal = excluded.principal OR CAST(:any_owner AS BIGINT) = 1
RETURNING source

-- name: all_declarations
SELECT source, principal, definitions FROM declarations ORDER BY source

-- name: get_listing
SELECT listing FROM source_listings WHERE source = :source

-- name: put_listing
INSERT INTO source_listings (source, listing, updated_at) VALUES (:source, :listing, clock_ms())
ON CONFLICT (source) DO UPDATE SET listing = excluded.listing, updated_at = excluded.updated_at
