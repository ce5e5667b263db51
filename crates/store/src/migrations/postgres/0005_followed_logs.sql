-- Until when somebody follows the log of an open job, so that whoever watches its group finds those few without reading
-- every row. A server of the version before leaves it as it is: logs that are followed through such a one are looked at
-- as rarely as others until it is gone.

ALTER TABLE tasks ADD COLUMN log_until bigint;
CREATE INDEX tasks_followed ON tasks (backend, grp, log_until) WHERE log_until IS NOT NULL;
