-- The newest message that carries each question to a client: its number, and until when its stream counts as open. Older
-- programs record it in the body of the task's row, and do not read this table.
CREATE TABLE deliveries (
    task    text COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    -- The question's key within the task.
    key     text COLLATE "C" NOT NULL,
    n       bigint NOT NULL,
    until   bigint NOT NULL,
    -- True when the client has handled it.
    over    boolean NOT NULL,
    -- Why the answer to it was refused.
    problem text COLLATE "C",
    PRIMARY KEY (task, key)
);
