-- name: insert_model
INSERT INTO models (name, settings, created_by, created_at, updated_at)
VALUES (:name, :settings, :created_by, clock_ms(), clock_ms())
ON CONFLICT DO NOTHING
RETURNING *

-- name: change_model
UPDATE models SET settings = :settings, updated_at = clock_ms() WHERE name = :name AND settings = :before
RETURNING *

-- name: delete_model
DELETE FROM models WHERE name = :name RETURNING *

-- name: all_models
SELECT * FROM models ORDER BY created_at, name
