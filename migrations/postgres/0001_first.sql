-- Columns ending in _at and _us hold microseconds since 1970, UTC. Lists and
-- maps are JSON text. Ids are made by the program.

-- +goose Up
CREATE TABLE settings (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY,
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    password_hash TEXT NOT NULL,
    operator BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_email ON users (email);

CREATE TABLE sessions (
    id_hash TEXT NOT NULL PRIMARY KEY,
    user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
    data BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

CREATE TABLE login_failures (
    key TEXT NOT NULL,
    failed_at BIGINT NOT NULL
);
CREATE INDEX login_failures_by_key ON login_failures (key, failed_at);
CREATE INDEX login_failures_by_time ON login_failures (failed_at);

CREATE TABLE tenants (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    title TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE UNIQUE INDEX tenants_name ON tenants (name) WHERE deleted_at IS NULL;

CREATE TABLE memberships (
    tenant_id TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id);

CREATE TABLE clusters (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX clusters_name ON clusters (name);

CREATE TABLE join_tokens (
    id TEXT NOT NULL PRIMARY KEY,
    cluster_id TEXT NOT NULL REFERENCES clusters (id) ON DELETE CASCADE,
    hash TEXT NOT NULL,
    max_uses BIGINT NOT NULL,
    uses BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX join_tokens_hash ON join_tokens (hash);
CREATE INDEX join_tokens_by_cluster ON join_tokens (cluster_id);

CREATE TABLE nodes (
    id TEXT NOT NULL PRIMARY KEY,
    cluster_id TEXT NOT NULL REFERENCES clusters (id),
    name TEXT NOT NULL,
    identity TEXT NOT NULL,
    credential_hash TEXT NOT NULL,
    address TEXT NOT NULL,
    agent_version TEXT NOT NULL,
    runtime TEXT NOT NULL,
    hardware TEXT NOT NULL,
    skew_us BIGINT NOT NULL,
    report_seq BIGINT NOT NULL,
    joined_at BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX nodes_credential_hash ON nodes (credential_hash);
CREATE UNIQUE INDEX nodes_identity ON nodes (cluster_id, identity);
CREATE UNIQUE INDEX nodes_name ON nodes (cluster_id, name);

CREATE TABLE endpoints (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    hostname TEXT NOT NULL,
    cluster_id TEXT NOT NULL REFERENCES clusters (id),
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX endpoints_name ON endpoints (name);
CREATE UNIQUE INDEX endpoints_hostname ON endpoints (hostname) WHERE hostname <> '';
CREATE INDEX endpoints_by_cluster ON endpoints (cluster_id);

CREATE TABLE providers (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    website TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX providers_name ON providers (name);

CREATE TABLE models (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    provider_id TEXT NOT NULL REFERENCES providers (id),
    source TEXT NOT NULL,
    location TEXT NOT NULL,
    description TEXT NOT NULL,
    context_length BIGINT NOT NULL,
    parameters_b DOUBLE PRECISION NOT NULL,
    weight_bits BIGINT NOT NULL,
    layers BIGINT NOT NULL,
    kv_heads BIGINT NOT NULL,
    head_size BIGINT NOT NULL,
    embedding BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX models_name ON models (name);
CREATE INDEX models_by_provider ON models (provider_id);

-- A deleted deployment keeps its row and names for history; it lets go of its
-- model, endpoint and cluster, so that those can be deleted too.
CREATE TABLE deployments (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    model_id TEXT REFERENCES models (id),
    endpoint_id TEXT REFERENCES endpoints (id),
    cluster_id TEXT REFERENCES clusters (id),
    public_name TEXT NOT NULL,
    engine TEXT NOT NULL,
    address TEXT NOT NULL,
    engine_args TEXT NOT NULL,
    engine_env TEXT NOT NULL,
    gpu TEXT NOT NULL,
    gpu_count BIGINT NOT NULL,
    replicas BIGINT NOT NULL,
    context_length BIGINT NOT NULL,
    prefix_caching BOOLEAN NOT NULL,
    requests_per_minute BIGINT NOT NULL,
    workload TEXT NOT NULL,
    ttft_target_ms BIGINT NOT NULL,
    itl_target_ms BIGINT NOT NULL,
    shared_with_all BOOLEAN NOT NULL,
    stopped BOOLEAN NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE UNIQUE INDEX deployments_name ON deployments (name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX deployments_public_name ON deployments (public_name) WHERE deleted_at IS NULL;
CREATE INDEX deployments_by_model ON deployments (model_id);
CREATE INDEX deployments_by_endpoint ON deployments (endpoint_id);
CREATE INDEX deployments_by_cluster ON deployments (cluster_id);

CREATE TABLE deployment_tenants (
    deployment_id TEXT NOT NULL REFERENCES deployments (id) ON DELETE CASCADE,
    tenant_id TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    PRIMARY KEY (deployment_id, tenant_id)
);
CREATE INDEX deployment_tenants_by_tenant ON deployment_tenants (tenant_id);

-- Versions of prices are only ever added; version counts from 1 for each deployment.
CREATE TABLE prices (
    id TEXT NOT NULL PRIMARY KEY,
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    version BIGINT NOT NULL,
    free BOOLEAN NOT NULL,
    currency TEXT NOT NULL,
    input TEXT NOT NULL,
    cached_input TEXT NOT NULL,
    output TEXT NOT NULL,
    valid_from BIGINT NOT NULL
);
CREATE UNIQUE INDEX prices_version ON prices (deployment_id, version);

CREATE TABLE replicas (
    id TEXT NOT NULL PRIMARY KEY,
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    node_id TEXT REFERENCES nodes (id) ON DELETE CASCADE, -- none while it waits for a machine with room
    gpu_uuids TEXT NOT NULL,
    revision BIGINT NOT NULL,
    stopping BOOLEAN NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    last_lines TEXT NOT NULL,
    url TEXT NOT NULL,
    served_name TEXT NOT NULL,
    pid BIGINT NOT NULL,
    restarts BIGINT NOT NULL,
    progress TEXT NOT NULL,
    started_at BIGINT,
    ready_at BIGINT,
    updated_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX replicas_by_deployment ON replicas (deployment_id);
CREATE INDEX replicas_by_node ON replicas (node_id);

CREATE TABLE keys (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL REFERENCES tenants (id),
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    hash TEXT NOT NULL,
    scope TEXT NOT NULL,
    requests_per_minute BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT
);
CREATE UNIQUE INDEX keys_hash ON keys (hash);
CREATE UNIQUE INDEX keys_name ON keys (tenant_id, name);

-- The ledger. No foreign keys: what it names may be deleted, its rows never are.
CREATE TABLE usage_rows (
    id TEXT NOT NULL PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    deployment_id TEXT NOT NULL,
    replica_id TEXT NOT NULL,
    price_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    model_asked TEXT NOT NULL,
    model_served TEXT NOT NULL,
    status BIGINT NOT NULL,
    flags TEXT NOT NULL,
    stream BOOLEAN NOT NULL,
    attempts BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    queue_ms DOUBLE PRECISION,
    ttft_ms DOUBLE PRECISION,
    e2e_ms DOUBLE PRECISION
);
CREATE INDEX usage_rows_by_time ON usage_rows (started_at, id);
CREATE INDEX usage_rows_by_tenant ON usage_rows (tenant_id, started_at, id);
CREATE INDEX usage_rows_by_key ON usage_rows (key_id, started_at, id);
CREATE INDEX usage_rows_by_deployment ON usage_rows (deployment_id, started_at, id);

-- Sums of the ledger over quarters of an hour: the coarsest step that divides
-- the days of every time zone.
CREATE TABLE usage_rollups (
    quarter_us BIGINT NOT NULL,
    tenant_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    deployment_id TEXT NOT NULL,
    price_id TEXT NOT NULL,
    requests BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    estimated BIGINT NOT NULL,
    aborted BIGINT NOT NULL,
    PRIMARY KEY (quarter_us, tenant_id, key_id, deployment_id, price_id)
);
CREATE INDEX usage_rollups_by_tenant ON usage_rollups (tenant_id, quarter_us);

-- The primary key follows how charts read: one deployment, resolution and metric
-- over a range of time, all replicas.
CREATE TABLE metric_buckets (
    deployment_id TEXT COLLATE "C" NOT NULL,
    step_s BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    start_us BIGINT NOT NULL,
    replica_id TEXT COLLATE "C" NOT NULL,
    count DOUBLE PRECISION NOT NULL,
    sum DOUBLE PRECISION NOT NULL,
    max DOUBLE PRECISION NOT NULL,
    sketch BYTEA,
    PRIMARY KEY (deployment_id, step_s, name, start_us, replica_id)
);
CREATE INDEX metric_buckets_by_age ON metric_buckets (step_s, start_us);
