-- Tasks, and what belongs to them. Times are milliseconds since 1970 by the database's clock.
--
-- A row's body (JSON) is the truth; the columns beside it repeat what queries look for. Nothing reads a column that
-- the body does not say as well, except version and lease, which are the store's own. Text is compared byte by byte
-- (COLLATE "C"), whatever language the database speaks, and zero bytes in it are escaped (column.rs).

-- What counts as now: the database's clock when the statement began, or what a test says. Stable, so that an index can
-- be searched for it.
CREATE FUNCTION moment(given bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT COALESCE(given, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint) $$;

CREATE TABLE tasks (
    n             bigint GENERATED ALWAYS AS IDENTITY,
    id            text COLLATE "C" PRIMARY KEY,
    owner         text COLLATE "C" NOT NULL,
    tool          text COLLATE "C" NOT NULL,
    created_at    bigint NOT NULL,
    version       bigint NOT NULL,
    expires_at    bigint NOT NULL,
    due_at        bigint,
    lease_until   bigint,
    lease_holder  text COLLATE "C",
    -- Set while the job is open.
    backend       text COLLATE "C",
    grp           text COLLATE "C",
    opened_at     bigint,
    handle        text COLLATE "C",
    -- True when the job is known to run no more.
    closed        boolean NOT NULL,
    -- The session that the call came from, until the task has ended.
    session       text COLLATE "C",
    -- The slots that the row waits for, as sorted JSON, while it waits.
    line          text COLLATE "C",
    -- Set while nobody has been given the answer to a plain call.
    digest        text COLLATE "C",
    waiting_until bigint,
    body          text COLLATE "C" NOT NULL
)
-- Rows are written again and again for as long as they live: room for that in their page, and a vacuum that comes
-- while the dead versions are few.
WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX tasks_of_owner ON tasks (owner, created_at, id);
CREATE INDEX tasks_due ON tasks (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_open ON tasks (backend, grp, opened_at) WHERE backend IS NOT NULL;
CREATE INDEX tasks_of_session ON tasks (session, created_at, id) WHERE session IS NOT NULL;
CREATE INDEX tasks_waiting ON tasks (line, created_at, id) WHERE line IS NOT NULL;
CREATE INDEX tasks_undelivered ON tasks (digest, waiting_until) WHERE digest IS NOT NULL;
CREATE INDEX tasks_to_purge ON tasks (expires_at) WHERE closed;

-- Results, written once with the row's end.
CREATE TABLE outputs (
    task text COLLATE "C" PRIMARY KEY REFERENCES tasks (id) ON DELETE CASCADE,
    body text COLLATE "C" NOT NULL
);

-- The counted places that rows hold while their jobs may run.
CREATE TABLE slots (
    slot text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (slot, task)
);
CREATE INDEX slots_of_task ON slots (task);

-- The idempotency keys of callers.
CREATE TABLE once (
    scope  text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    task   text COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (scope, key)
);
CREATE INDEX once_of_task ON once (task);

-- Who watches a group, and until when.
CREATE TABLE groups (
    backend text COLLATE "C" NOT NULL,
    grp     text COLLATE "C" NOT NULL,
    holder  text COLLATE "C" NOT NULL,
    until   bigint NOT NULL,
    PRIMARY KEY (backend, grp)
);

-- The newest durations of a tool's jobs in milliseconds (a JSON array, oldest first) and their median.
CREATE TABLE history (
    tool   text COLLATE "C" PRIMARY KEY,
    took   text COLLATE "C" NOT NULL,
    median bigint NOT NULL
);

-- What a session has set, as JSON; without settings, the note that it was ended.
CREATE TABLE sessions (
    nonce        text COLLATE "C" PRIMARY KEY,
    forget_after bigint NOT NULL,
    settings     text COLLATE "C"
);
CREATE INDEX sessions_to_forget ON sessions (forget_after);

-- Secrets that all processes over this schema share.
CREATE TABLE keys (
    name  text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);
