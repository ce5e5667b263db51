-- Until when somebody follows the log of an open job, so that whoever watches its group finds those few without reading
-- every row.

ALTER TABLE tasks ADD COLUMN log_until INTEGER;
CREATE INDEX tasks_followed ON tasks (backend, grp, log_until) WHERE log_until IS NOT NULL;
