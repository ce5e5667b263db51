-- Which backend a task is of, whether its job is open or not, so that who cannot reach a backend leaves its rows alone. Rows
-- that a server of an older version made say nothing of it.

ALTER TABLE tasks ADD COLUMN of_backend text COLLATE "C";
