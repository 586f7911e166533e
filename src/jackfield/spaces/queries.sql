-- Spaces. A script's first statement that names `space_id` takes that space's row: in a batch such scripts come after all
-- that name a call, space by space, so that two batches never wait for each other's spaces in a circle.

-- name: next_seq
-- A number for one event, and the space's row until the commit.
UPDATE spaces SET last_seq = last_seq + 1 WHERE id = :space_id RETURNING id, name, last_seq

-- name: hold_spaces
-- For a script that may write into several: these, those that the cycle is at work in, and those in which calls are shown
-- that its model had begun to write. All at once and by their ids, so that no two wait for each other in a circle.
SELECT id FROM spaces WHERE id IN (each_of(:ids) UNION SELECT space_id FROM presence WHERE run_id = :cycle_id
        UNION SELECT space_id FROM space_messages WHERE begun_by = :cycle_id)
ORDER BY id FOR UPDATE

-- name: give_seq_back
-- In the transaction that took it, when nothing had happened after all: nobody has seen it.
UPDATE spaces SET last_seq = last_seq - 1 WHERE id = :space_id

-- name: insert_space_event
INSERT INTO space_events (space_id, seq, type, data, created_at) VALUES (:space_id, :seq, :type, :data, clock_ms())

-- name: insert_space
INSERT INTO spaces (id, name, description, metadata, created_at, updated_at)
VALUES (:space_id, :name, :description, :metadata, clock_ms(), clock_ms())
ON CONFLICT (id) DO NOTHING
RETURNING *

-- name: update_space
UPDATE spaces SET name = COALESCE(:name, name), description = COALESCE(:description, description),
    metadata = COALESCE(:metadata, metadata), last_seq = last_seq + 1, updated_at = clock_ms()
WHERE id = :space_id
RETURNING *

-- name: delete_space
DELETE FROM spaces WHERE id = :space_id RETURNING id

-- name: delete_members
DELETE FROM members WHERE space_id = :space_id

-- name: delete_space_messages
DELETE FROM space_messages WHERE space_id = :space_id

-- name: delete_space_events
DELETE FROM space_events WHERE space_id = :space_id

-- name: delete_presence
DELETE FROM presence WHERE space_id = :space_id

-- name: delete_space_reads
DELETE FROM space_reads WHERE space_id = :space_id

-- name: delete_live_streams
DELETE FROM live_streams WHERE space_id = :space_id

-- name: get_space
SELECT * FROM spaces WHERE id = :space_id

-- name: all_spaces
SELECT * FROM spaces ORDER BY id

-- name: latest_of_spaces
-- What a list of spaces says of each: how many are in it, and what was said last. By the indexes of both tables.
SELECT spaces.id AS space_id,
    (SELECT COUNT(*) FROM members WHERE members.space_id = spaces.id) AS members,
    latest.sender_name AS sender_name, substr(latest.content, 1, 300) AS content, latest.created_at AS created_at,
    CASE WHEN latest.content LIKE '{"type":"tool_call"%'
        THEN (SELECT calls.tool FROM calls WHERE calls.id = substr(latest.id, 5)) END AS tool
FROM spaces LEFT JOIN space_messages AS latest ON latest.space_id = spaces.id AND latest.seq =
    (SELECT MAX(seq) FROM space_messages WHERE space_messages.space_id = spaces.id)
WHERE spaces.id IN (each_of(:ids))

-- name: spaces_of
SELECT spaces.* FROM members JOIN spaces ON spaces.id = members.space_id
WHERE members.entity_id = :entity_id ORDER BY spaces.id

-- name: put_member
INSERT INTO members (space_id, entity_id, kind, name, joined_at)
VALUES (:space_id, :entity_id, :kind, :name, clock_ms())
ON CONFLICT (space_id, entity_id) DO UPDATE SET kind = excluded.kind, name = excluded.name
RETURNING space_id, entity_id, kind, name, joined_at

-- name: lock_space
SELECT * FROM spaces WHERE id = :space_id FOR UPDATE

-- name: put_space_read
-- What was read stays read: a number that goes back changes nothing.
INSERT INTO space_reads (space_id, entity_id, last_seq, last_message, read_at)
VALUES (:space_id, :entity_id, :last_seq, :last_message, clock_ms())
ON CONFLICT (space_id, entity_id) DO UPDATE SET last_seq = excluded.last_seq, last_message = excluded.last_message,
    read_at = excluded.read_at
    WHERE excluded.last_seq > space_reads.last_seq

-- name: get_space_read
SELECT * FROM space_reads WHERE space_id = :space_id AND entity_id = :entity_id

-- name: space_reads_of
SELECT * FROM space_reads WHERE space_id = :space_id

-- name: delete_space_read
DELETE FROM space_reads WHERE space_id = :space_id AND entity_id = :entity_id

-- name: delete_member
DELETE FROM members WHERE space_id = :space_id AND entity_id = :entity_id
RETURNING space_id, entity_id, kind, name, joined_at

-- name: get_member
SELECT * FROM members WHERE space_id = :space_id AND entity_id = :entity_id

-- name: members_of
SELECT * FROM members WHERE space_id = :space_id ORDER BY joined_at, entity_id

-- name: members_around
-- The first of each space, however many there are.
SELECT space_id, entity_id, kind, name, joined_at FROM (
    SELECT members.*, ROW_NUMBER() OVER (PARTITION BY space_id ORDER BY joined_at, entity_id) AS place FROM members
    WHERE space_id IN (each_of(:ids)) AND entity_id <> :besides) AS around
WHERE place <= :most ORDER BY space_id, joined_at, entity_id

-- name: insert_space_message
-- The same id again is a client's retry: the first stands.
INSERT INTO space_messages (id, space_id, seq, entity_id, sender_name, sender_type, role, content, metadata, run_id,
    begun_by, created_at)
VALUES (:message_id, :space_id, :seq, :entity_id,
    COALESCE(:sender_name, (SELECT name FROM members WHERE space_id = :space_id AND entity_id = :entity_id), :entity_id),
    :sender_type, :role, :content, :metadata, :run_id, :begun_by, clock_ms())
ON CONFLICT (id) DO NOTHING
RETURNING *

-- name: change_space_message
UPDATE space_messages SET content = :content, metadata = :metadata, begun_by = NULL
WHERE id = :message_id AND space_id = :space_id
RETURNING *

-- name: get_space_message
SELECT * FROM space_messages WHERE id = :message_id

-- name: tell_agents
-- Every agent in the space but the sender finds the message in its inbox.
INSERT INTO inbox (event_id, agent, type, status, data, created_at)
SELECT :event_id, entity_id, 'space_message', 'pending', :data, clock_ms() FROM members
WHERE space_id = :space_id AND kind = 'agent' AND entity_id <> :sender
ORDER BY entity_id
ON CONFLICT (agent, event_id) DO NOTHING
RETURNING agent

-- name: messages_after
SELECT * FROM space_messages WHERE space_id = :space_id AND seq > :after_seq AND seq < :before_seq
ORDER BY seq LIMIT :limit

-- name: messages_before
SELECT * FROM space_messages WHERE space_id = :space_id AND seq < :before_seq
ORDER BY seq DESC LIMIT :limit OFFSET :offset

-- name: count_messages
SELECT COUNT(*) AS total FROM space_messages WHERE space_id = :space_id

-- name: space_events_after
SELECT * FROM space_events WHERE space_id = :space_id AND seq > :after_seq ORDER BY seq LIMIT :limit

-- name: begun_messages
SELECT * FROM space_messages WHERE begun_by = :cycle_id ORDER BY space_id, seq

-- name: insert_presence
-- Only of a member.
INSERT INTO presence (space_id, run_id, agent, agent_name, since)
SELECT space_id, :run_id, entity_id, COALESCE(:agent_name, name), clock_ms() FROM members
WHERE space_id = :space_id AND entity_id = :agent
ON CONFLICT (space_id, run_id) DO NOTHING
RETURNING agent_name

-- name: end_presence
DELETE FROM presence WHERE space_id = :space_id AND run_id = :run_id RETURNING agent, agent_name

-- name: presence_of_run
SELECT space_id FROM presence WHERE run_id = :run_id ORDER BY space_id

-- name: presence_of_agent
SELECT run_id FROM presence WHERE space_id = :space_id AND agent = :agent ORDER BY run_id

-- name: presence_in_space
SELECT agent, agent_name, run_id FROM presence WHERE space_id = :space_id ORDER BY since, run_id

-- name: put_live
INSERT INTO live_streams (stream_id, space_id, gateway, kind, state, run_id, agent, agent_name, tool, text, updated_at)
VALUES (:stream_id, :space_id, :gateway, :kind, :state, :run_id, :agent, :agent_name, :tool, :text, clock_ms())
ON CONFLICT (stream_id) DO UPDATE SET state = excluded.state, text = excluded.text, updated_at = excluded.updated_at

-- name: drop_live
DELETE FROM live_streams WHERE stream_id = :stream_id

-- name: live_in_space
SELECT live_streams.* FROM live_streams JOIN gateways ON gateways.id = live_streams.gateway AND gateways.dead = 0
WHERE live_streams.space_id = :space_id ORDER BY live_streams.stream_id

-- name: prune_live_streams
DELETE FROM live_streams WHERE stream_id IN (
    SELECT live_streams.stream_id FROM live_streams LEFT JOIN gateways ON gateways.id = live_streams.gateway
    WHERE gateways.id IS NULL OR gateways.dead = 1 ORDER BY live_streams.stream_id LIMIT :limit)

-- name: prune_space_events
-- Materialized, or PostgreSQL may run the subquery more than once and delete more than the limit.
WITH old AS MATERIALIZED (
    SELECT space_id, seq FROM space_events WHERE created_at < :before ORDER BY created_at LIMIT :limit
    FOR UPDATE SKIP LOCKED)
DELETE FROM space_events WHERE (space_id, seq) IN (SELECT space_id, seq FROM old)
RETURNING seq

-- name: prune_space_messages
-- A space's last messages stay, however old: whoever comes in wants to know what was said. The edges come first, one
-- look for each space; message by message the same question would take seconds.
DELETE FROM space_messages WHERE id IN (
    WITH edges AS MATERIALIZED (
        SELECT spaces.id AS space_id, (SELECT seq FROM space_messages WHERE space_messages.space_id = spaces.id
            ORDER BY seq DESC LIMIT 1 OFFSET :kept) AS seq
        FROM spaces)
    SELECT space_messages.id FROM edges CROSS JOIN space_messages
    WHERE edges.seq IS NOT NULL AND space_messages.space_id = edges.space_id AND space_messages.seq <= edges.seq
        AND space_messages.created_at < :before
    LIMIT :limit)
RETURNING id

-- name: message_to_edit
SELECT space_messages.*, clock_ms() AS now FROM space_messages WHERE id = :message_id

-- name: edit_space_message
-- `earlier` is a JSON list of what it said before, the oldest first.
UPDATE space_messages SET content = :content, earlier = :earlier, edited_at = clock_ms()
WHERE id = :message_id AND space_id = :space_id
RETURNING *

-- name: unread_of_message
SELECT agent, data FROM inbox WHERE event_id = :message_id AND status = 'pending' ORDER BY agent

-- name: change_unread
UPDATE inbox SET data = :data WHERE agent = :agent AND event_id = :message_id AND status = 'pending'
