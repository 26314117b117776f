-- Jobs have a file of their own: however many there are, they do not stand in the way of deliveries.

CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY NOT NULL,
    queue TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL, -- JSON
    state TEXT NOT NULL
        CHECK (state IN ('waiting', 'prioritized', 'active', 'delayed', 'completed', 'failed')),
    -- Their order within a state: (rank, place). The rank is the time when a delayed one is due, and when an ended one
    -- ended; else the priority. The place rises with each that comes.
    rank BIGINT NOT NULL,
    place BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    attempts_made BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    ready_ms BIGINT NOT NULL, -- since when it could run
    started_ms BIGINT,
    finished_ms BIGINT,
    reason TEXT,
    result TEXT, -- JSON
    progress TEXT, -- JSON
    schedule TEXT,
    tick_ms BIGINT,
    holder BIGINT -- the attempt that has it
);

CREATE UNIQUE INDEX jobs_id ON jobs (queue, id);
CREATE INDEX jobs_order ON jobs (queue, state, rank, place);
CREATE INDEX jobs_holder ON jobs (holder) WHERE holder IS NOT NULL;
CREATE INDEX jobs_schedule ON jobs (queue, schedule) WHERE schedule IS NOT NULL;

CREATE TABLE job_lines (
    job BIGINT NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    place BIGINT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (job, place)
) WITHOUT ROWID;

CREATE TABLE paused_queues (
    queue TEXT PRIMARY KEY NOT NULL
) WITHOUT ROWID;

CREATE TABLE schedules (
    queue TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    data TEXT NOT NULL, -- JSON
    cadence TEXT NOT NULL, -- a cron pattern, or milliseconds
    time_zone TEXT, -- of a cron pattern
    next_ms BIGINT,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
