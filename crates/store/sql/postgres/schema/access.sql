-- Tokens, the audit log, answers kept for repeated requests, secrets, namespaces.

-- A namespace exists by being used; a row here gives it quotas (null is unlimited) and words.
CREATE TABLE namespaces (
    name          text PRIMARY KEY,
    description   text,
    max_open_runs integer CHECK (max_open_runs >= 0),
    max_workflows integer CHECK (max_workflows >= 0),
    created_at    bigint NOT NULL,
    updated_at    bigint NOT NULL,
    -- Who is notified when something goes wrong, as JSON.
    notifications text
);

-- `hash` is the SHA-256 of the token, which itself is stored nowhere. `grants` is a JSON array of {namespace, role}.
CREATE TABLE api_tokens (
    id           uuid PRIMARY KEY,
    name         text NOT NULL,
    hash         bytea NOT NULL CHECK (octet_length(hash) = 32),
    grants       text NOT NULL,
    created_by   text NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    last_used_at bigint,
    revoked_at   bigint
);

-- Every write and every refusal. `id` rises with time.
CREATE TABLE audit_log (
    id         uuid PRIMARY KEY,
    at         bigint NOT NULL,
    actor      text NOT NULL,
    address    text,
    method     text NOT NULL,
    path       text NOT NULL,
    namespace  text,
    status     smallint NOT NULL,
    request_id text NOT NULL,
    detail     text
);
CREATE INDEX audit_log_by_namespace ON audit_log (namespace, id);
CREATE INDEX audit_log_by_actor ON audit_log (actor, id);

-- A row without status is a request under way, or one whose process died.
CREATE TABLE idempotent_requests (
    actor        text NOT NULL,
    key          text NOT NULL,
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    claim        uuid NOT NULL,
    status       smallint,
    content_type text,
    body         bytea,
    created_at   bigint NOT NULL,
    PRIMARY KEY (actor, key)
);
CREATE INDEX idempotent_requests_by_age ON idempotent_requests (created_at);

-- Sealed with a key that the database never sees; `key_id` says with which.
CREATE TABLE secrets (
    namespace  text NOT NULL,
    name       text NOT NULL,
    sealed     bytea NOT NULL,
    key_id     text NOT NULL,
    updated_by text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- Sessions of the web interface and the one-time codes that open them. Both hold hashes only, and end with their token.
CREATE TABLE ui_sessions (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    token_id   uuid NOT NULL REFERENCES api_tokens (id) ON DELETE CASCADE,
    created_at bigint NOT NULL,
    used_at    bigint NOT NULL
);
CREATE INDEX ui_sessions_of_token ON ui_sessions (token_id);
CREATE INDEX ui_sessions_by_age ON ui_sessions (created_at);

CREATE TABLE ui_codes (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    token_id   uuid NOT NULL REFERENCES api_tokens (id) ON DELETE CASCADE,
    expires_at bigint NOT NULL
);
CREATE INDEX ui_codes_by_age ON ui_codes (expires_at);
