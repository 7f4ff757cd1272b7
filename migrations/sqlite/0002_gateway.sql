-- +goose Up

-- Limits are JSON, {} is none: what may be limited grows, and nobody searches by it.
ALTER TABLE keys ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
UPDATE keys SET limits = '{"requests_per_minute":' || requests_per_minute || '}' WHERE requests_per_minute > 0;
ALTER TABLE keys DROP COLUMN requests_per_minute;

ALTER TABLE tenants ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';

ALTER TABLE deployments ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
UPDATE deployments SET limits = '{"requests_per_minute":' || requests_per_minute || '}' WHERE requests_per_minute > 0;
ALTER TABLE deployments DROP COLUMN requests_per_minute;

ALTER TABLE deployments ADD COLUMN replica_concurrency BIGINT NOT NULL DEFAULT 0;
ALTER TABLE deployments ADD COLUMN asleep BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE deployments ADD COLUMN running_usage TEXT NOT NULL DEFAULT '';

CREATE TABLE aliases (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX aliases_name ON aliases (name);

-- Targets and fallbacks of an alias, each in the order that position counts.
CREATE TABLE alias_targets (
    alias_id TEXT NOT NULL REFERENCES aliases (id) ON DELETE CASCADE,
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    fallback BOOLEAN NOT NULL,
    position BIGINT NOT NULL,
    weight BIGINT NOT NULL,
    PRIMARY KEY (alias_id, deployment_id)
);
CREATE INDEX alias_targets_by_deployment ON alias_targets (deployment_id);

-- Requests that a limit kept out, over quarters of an hour. No foreign keys: what
-- it names may be deleted.
CREATE TABLE refusals (
    quarter_us BIGINT NOT NULL,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    deployment_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (quarter_us, tenant_id, key_id, deployment_id, scope, kind)
);
CREATE INDEX refusals_by_tenant ON refusals (tenant_id, quarter_us);
CREATE INDEX refusals_by_deployment ON refusals (deployment_id, quarter_us);

CREATE INDEX usage_rollups_by_key ON usage_rollups (key_id, quarter_us);
CREATE INDEX usage_rollups_by_deployment ON usage_rollups (deployment_id, quarter_us);

-- Sums of the ledger over days in UTC, for what was spent in a month: a tenant with
-- many keys has a hundred thousand quarters in one.
CREATE TABLE usage_days (
    day_us BIGINT NOT NULL,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    deployment_id TEXT NOT NULL,
    price_id TEXT NOT NULL,
    requests BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    PRIMARY KEY (day_us, tenant_id, key_id, deployment_id, price_id)
);
CREATE INDEX usage_days_by_tenant ON usage_days (tenant_id, day_us);
CREATE INDEX usage_days_by_key ON usage_days (key_id, day_us);
CREATE INDEX usage_days_by_deployment ON usage_days (deployment_id, day_us);
INSERT INTO usage_days (day_us, tenant_id, key_id, deployment_id, price_id, requests, prompt_tokens, cached_tokens, completion_tokens)
    SELECT quarter_us - quarter_us % 86400000000, tenant_id, key_id, deployment_id, price_id,
        SUM(requests), SUM(prompt_tokens), SUM(cached_tokens), SUM(completion_tokens)
    FROM usage_rollups GROUP BY 1, 2, 3, 4, 5;
