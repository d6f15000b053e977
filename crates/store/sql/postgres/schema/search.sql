-- The index of the full-text search.

-- What can be searched: workflows (kind 0), runs (1) and errors (2). Rebuilt from the other tables at any time.
CREATE TABLE search_documents (
    namespace   text NOT NULL,
    kind        smallint NOT NULL CHECK (kind BETWEEN 0 AND 2),
    id          text NOT NULL,
    title       text NOT NULL,
    body        text NOT NULL,
    words       tsvector GENERATED ALWAYS AS (to_tsvector('simple', left(title || ' ' || body, 100000))) STORED,
    PRIMARY KEY (namespace, kind, id)
);
CREATE INDEX search_documents_words ON search_documents USING gin (words);
