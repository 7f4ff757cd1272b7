-- +goose Up

-- PostgreSQL gets an index of how requests were judged. SQLite keeps a deployment's
-- buckets together, and needs none.
SELECT 1;
