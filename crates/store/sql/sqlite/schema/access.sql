-- Tokens, the audit log, answers kept for repeated requests, secrets, namespaces.

-- A namespace exists by being used; a row here gives it quotas (null is unlimited) and words.
CREATE TABLE namespaces (
    name          TEXT PRIMARY KEY,
    description   TEXT,
    max_open_runs INTEGER CHECK (max_open_runs >= 0),
    max_workflows INTEGER CHECK (max_workflows >= 0),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    -- Who is notified when something goes wrong, as JSON.
    notifications TEXT
);

-- `hash` is the SHA-256 of the token, which itself is stored nowhere. `grants` is a JSON array of {namespace, role}.
CREATE TABLE api_tokens (
    id           BLOB PRIMARY KEY,
    name         TEXT NOT NULL,
    hash         BLOB NOT NULL CHECK (length(hash) = 32),
    grants       TEXT NOT NULL,
    created_by   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER
);

-- Every write and every refusal. `id` rises with time.
CREATE TABLE audit_log (
    id         BLOB PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    address    TEXT,
    method     TEXT NOT NULL,
    path       TEXT NOT NULL,
    namespace  TEXT,
    status     INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    detail     TEXT
);
CREATE INDEX audit_log_by_namespace ON audit_log (namespace, id);
CREATE INDEX audit_log_by_actor ON audit_log (actor, id);

-- A row without status is a request under way, or one whose process died.
CREATE TABLE idempotent_requests (
    actor        TEXT NOT NULL,
    key          TEXT NOT NULL,
    request_hash BLOB NOT NULL CHECK (length(request_hash) = 32),
    claim        BLOB NOT NULL,
    status       INTEGER,
    content_type TEXT,
    body         BLOB,
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (actor, key)
);
CREATE INDEX idempotent_requests_by_age ON idempotent_requests (created_at);

-- Sealed with a key that the database never sees; `key_id` says with which.
CREATE TABLE secrets (
    namespace  TEXT NOT NULL,
    name       TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    key_id     TEXT NOT NULL,
    updated_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- Sessions of the web interface and the one-time codes that open them. Both hold hashes only, and end with their token.
CREATE TABLE ui_sessions (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    token_id   BLOB NOT NULL REFERENCES api_tokens (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL
);
CREATE INDEX ui_sessions_of_token ON ui_sessions (token_id);
CREATE INDEX ui_sessions_by_age ON ui_sessions (created_at);

CREATE TABLE ui_codes (
    hash       BLOB PRIMARY KEY CHECK (length(hash) = 32),
    token_id   BLOB NOT NULL REFERENCES api_tokens (id) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
);
CREATE INDEX ui_codes_by_age ON ui_codes (expires_at);
