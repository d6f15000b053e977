DROP TABLE search_documents;
