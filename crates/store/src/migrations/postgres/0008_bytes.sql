-- The bytes of a row and of its result, for the limit on what is kept of one owner. They are counted when the row is inserted and
-- when it ends. A row that an older program inserts counts nothing until it ends by a newer one.

ALTER TABLE tasks ADD COLUMN bytes bigint NOT NULL DEFAULT 0;
UPDATE tasks SET bytes = octet_length(body) + COALESCE((SELECT octet_length(o.body) FROM outputs o WHERE o.task = tasks.id), 0);

-- The index alone tells how much an owner keeps.
DROP INDEX tasks_of_owner;
CREATE INDEX tasks_of_owner ON tasks (owner, created_at, id) INCLUDE (bytes);
