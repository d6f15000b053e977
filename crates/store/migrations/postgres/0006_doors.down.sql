DROP TABLE secrets;
DROP TABLE idempotent_requests;
DROP TABLE audit_log;
DROP TABLE api_tokens;
DROP TABLE namespaces;
