-- +goose Up

-- What each key did is kept beside what all did, whose tenant and key are empty.
ALTER TABLE metric_buckets ADD COLUMN tenant_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE metric_buckets ADD COLUMN key_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE metric_buckets DROP CONSTRAINT metric_buckets_pkey;
ALTER TABLE metric_buckets ADD PRIMARY KEY (deployment_id, tenant_id, step_s, name, start_us, key_id, replica_id);

-- What the gateway judges requests by, beside the two targets in columns of their own;
-- JSON, {} is the workload's defaults. They hold since targets_at.
ALTER TABLE deployments ADD COLUMN objectives TEXT NOT NULL DEFAULT '{}';
ALTER TABLE deployments ADD COLUMN targets_at BIGINT NOT NULL DEFAULT 0;
UPDATE deployments SET targets_at = created_at;

-- What happened to deployments, for the marks on charts. No foreign keys: it stays
-- when they are deleted.
CREATE TABLE events (
    id TEXT NOT NULL PRIMARY KEY,
    deployment_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    actor TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX events_by_deployment ON events (deployment_id, at);
CREATE INDEX events_by_time ON events (at);

-- One row for each time that something was wrong. subject says what, and has at most
-- one alert that is not resolved. No foreign keys: history stays.
CREATE TABLE alerts (
    id TEXT NOT NULL PRIMARY KEY,
    subject TEXT NOT NULL,
    rule TEXT NOT NULL,
    severity TEXT NOT NULL,
    deployment_id TEXT NOT NULL,
    node_id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    state TEXT NOT NULL,
    title TEXT NOT NULL,
    detail TEXT NOT NULL,
    pending_at BIGINT NOT NULL,
    firing_at BIGINT,
    below_at BIGINT,
    resolved_at BIGINT,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX alerts_open ON alerts (subject) WHERE resolved_at IS NULL;
CREATE INDEX alerts_by_time ON alerts (pending_at, id);
CREATE INDEX alerts_by_deployment ON alerts (deployment_id, pending_at, id);

-- Where alerts are delivered. settings is sealed: it has addresses that are secrets.
CREATE TABLE channels (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    settings TEXT NOT NULL,
    severities TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX channels_name ON channels (name);

-- What has to be told to whom, until it was: at least once, and not repeated.
CREATE TABLE deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    alert_id TEXT NOT NULL,
    channel_id TEXT NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
    change TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    answer TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    done_at BIGINT
);
CREATE UNIQUE INDEX deliveries_once ON deliveries (alert_id, channel_id, change);
CREATE INDEX deliveries_due ON deliveries (state, next_at);
CREATE INDEX deliveries_by_channel ON deliveries (channel_id, created_at, id);

CREATE TABLE silences (
    id TEXT NOT NULL PRIMARY KEY,
    rule TEXT NOT NULL,
    deployment_id TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    until_at BIGINT NOT NULL
);
CREATE INDEX silences_by_end ON silences (until_at);
