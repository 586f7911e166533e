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

-- name: delete_listing
DELETE FROM source_listings WHERE source = :source

-- name: insert_source
INSERT INTO sources (name, settings, created_by, created_at, updated_at)
VALUES (:name, :settings, :created_by, clock_ms(), clock_ms())
ON CONFLICT DO NOTHING
RETURNING *

-- name: change_source
UPDATE sources SET settings = :settings, updated_at = clock_ms() WHERE name = :name AND settings = :before
RETURNING *

-- name: delete_source
DELETE FROM sources WHERE name = :name RETURNING *

-- name: all_sources
SELECT * FROM sources ORDER BY created_at, name

-- name: put_secret
INSERT INTO secrets (name, version, updated_by, updated_at) VALUES (:name, 1, :updated_by, clock_ms())
ON CONFLICT (name) DO UPDATE SET version = secrets.version + 1, updated_by = excluded.updated_by,
    updated_at = excluded.updated_at
RETURNING *

-- name: delete_secret
DELETE FROM secrets WHERE name = :name RETURNING *

-- name: all_secrets
SELECT s.name, s.version, s.updated_by, s.updated_at, v.sealed FROM secrets s
LEFT JOIN vault v ON v.kind = 'secret' AND v.id = s.name
ORDER BY s.name
