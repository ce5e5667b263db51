-- Tasks, and what belongs to them. Times are milliseconds since 1970 by the store's clock.
--
-- A row's body (JSON) is the truth; the columns beside it repeat what queries look for. Nothing reads a column that
-- the body does not say as well, except version and lease, which are the store's own.

CREATE TABLE tasks (
    n             INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    owner         TEXT NOT NULL,
    tool          TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    due_at        INTEGER,
    lease_until   INTEGER,
    lease_holder  TEXT,
    -- Set while the job is open.
    backend       TEXT,
    grp           TEXT,
    opened_at     INTEGER,
    handle        TEXT,
    -- 1 when the job is known to run no more.
    closed        INTEGER NOT NULL,
    -- The session that the call came from, until the task has ended.
    session       TEXT,
    -- The slots that the row waits for, as sorted JSON, while it waits.
    line          TEXT,
    -- Set while nobody has been given the answer to a plain call.
    digest        TEXT,
    waiting_until INTEGER,
    body          TEXT NOT NULL
) STRICT;

CREATE INDEX tasks_of_owner ON tasks (owner, created_at, id);
CREATE INDEX tasks_due ON tasks (due_at, lease_until) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_open ON tasks (backend, grp, opened_at) WHERE backend IS NOT NULL;
CREATE INDEX tasks_of_session ON tasks (session, created_at, id) WHERE session IS NOT NULL;
CREATE INDEX tasks_waiting ON tasks (line, created_at, id) WHERE line IS NOT NULL;
CREATE INDEX tasks_undelivered ON tasks (digest, waiting_until) WHERE digest IS NOT NULL;
CREATE INDEX tasks_to_purge ON tasks (expires_at) WHERE closed = 1;

-- Results, written once with the row's end.
CREATE TABLE outputs (
    task TEXT PRIMARY KEY NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;

-- The counted places that rows hold while their jobs may run.
CREATE TABLE slots (
    slot TEXT NOT NULL,
    task TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX slots_of_task ON slots (task);

-- The idempotency keys of callers.
CREATE TABLE once (
    scope  TEXT NOT NULL,
    key    TEXT NOT NULL,
    digest TEXT NOT NULL,
    task   TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX once_of_task ON once (task);

-- Who watches a group, and until when.
CREATE TABLE groups (
    backend TEXT NOT NULL,
    grp     TEXT NOT NULL,
    holder  TEXT NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (backend, grp)
) STRICT, WITHOUT ROWID;

-- The newest durations of a tool's jobs in milliseconds (a JSON array, oldest first) and their median.
CREATE TABLE history (
    tool   TEXT PRIMARY KEY NOT NULL,
    took   TEXT NOT NULL,
    median INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Sessions that were ended.
CREATE TABLE sessions (
    nonce        TEXT PRIMARY KEY NOT NULL,
    forget_after INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_to_forget ON sessions (forget_after);

-- Secrets that all processes over this file share.
CREATE TABLE keys (
    name  TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
