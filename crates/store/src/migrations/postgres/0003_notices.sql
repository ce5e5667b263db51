-- What receivers of notices are owed, and since when. It is due when it may be sent (again); whoever sends it moves that
-- moment on first, so that nobody else does. Nothing of it hangs on the task's row, which may expire before.

CREATE TABLE notices (
    id       text COLLATE "C" NOT NULL,
    receiver text COLLATE "C" NOT NULL,
    since    bigint NOT NULL,
    due_at   bigint NOT NULL,
    -- Who sends it.
    holder   text COLLATE "C",
    attempts integer NOT NULL DEFAULT 0,
    body     text COLLATE "C" NOT NULL,
    PRIMARY KEY (id, receiver)
);
CREATE INDEX notices_due ON notices (receiver, due_at);
