-- +goose Up

-- How requests were judged is read of all deployments at once, over thirty days. The rows
-- lie in the order in which they came, each on another page, and this has their sums
-- without going there: 100 MB for a thousand deployments, in place of reading gigabytes.
CREATE INDEX metric_buckets_judged ON metric_buckets (deployment_id, tenant_id, step_s, name, start_us) INCLUDE (sum) WHERE name IN ('good', 'bad');
