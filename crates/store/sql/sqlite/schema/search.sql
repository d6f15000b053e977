-- The index of the full-text search.

-- What can be searched: workflows (kind 0), runs (1) and errors (2). Rebuilt from the other tables at any time.
CREATE VIRTUAL TABLE search_documents USING fts5 (namespace UNINDEXED, kind UNINDEXED, id UNINDEXED, title, body, tokenize = 'unicode61');
