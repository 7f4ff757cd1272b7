-- What a factory of the second release may hold, at least one row of every table.
-- BYTES stands for the dialect's type.
INSERT INTO settings (key, value) VALUES ('billing_zone', 'Europe/Berlin');
INSERT INTO users (id, email, name, password_hash, operator, created_at) VALUES
    ('u1', 'ada@example.org', 'Ada', 'x', TRUE, 1796040000000000);
INSERT INTO sessions (id_hash, user_id, data, created_at, expires_at) VALUES
    ('s1', 'u1', CAST('data' AS BYTES), 1796040000000000, 1796050000000000),
    ('s2', NULL, CAST('' AS BYTES), 1796040000000000, 1796050000000000);
INSERT INTO login_failures (key, failed_at) VALUES ('ada@example.org', 1796040000000000), ('ada@example.org', 1796040000000001);
INSERT INTO tenants (id, name, title, created_at, deleted_at, limits) VALUES
    ('t1', 'acme', 'Acme', 1796040000000000, NULL, '{"tokens_per_minute":5000}'),
    ('t0', 'acme', 'Acme before', 1796030000000000, 1796039000000000, '{}');
INSERT INTO memberships (tenant_id, user_id, role, created_at) VALUES ('t1', 'u1', 'admin', 1796040000000000);
INSERT INTO clusters (id, name, description, created_at) VALUES ('c1', 'desk', 'one Spark', 1796040000000000);
INSERT INTO join_tokens (id, cluster_id, hash, max_uses, uses, expires_at, created_at) VALUES
    ('j1', 'c1', 'h', 10, 1, 1796050000000000, 1796040000000000);
INSERT INTO nodes (id, cluster_id, name, identity, credential_hash, address, agent_version, runtime, hardware, skew_us, report_seq, joined_at, last_seen_at) VALUES
    ('n1', 'c1', 'spark', 'machine-1', 'h', '192.0.2.1', '1', 'process', '{"hostname":"spark","arch":"arm64"}', -3, 17, 1796040000000000, 1796040000000009);
INSERT INTO endpoints (id, name, hostname, cluster_id, created_at) VALUES ('e1', 'chat', 'llm.example.org', 'c1', 1796040000000000);
INSERT INTO providers (id, name, description, website, created_at) VALUES ('p1', 'qwen', 'Qwen', 'https://qwen.ai', 1796040000000000);
INSERT INTO models (id, name, provider_id, source, location, description, context_length, parameters_b, weight_bits, layers, kv_heads, head_size, embedding, created_at) VALUES
    ('m1', 'qwen2-0.5b', 'p1', 'huggingface', 'Qwen/Qwen2-0.5B-Instruct', 'tiny', 32768, 0.494, 16, 24, 2, 64, FALSE, 1796040000000000);
INSERT INTO deployments (id, name, model_id, endpoint_id, cluster_id, public_name, engine, address, engine_args, engine_env, gpu, gpu_count, replicas, context_length,
    prefix_caching, workload, ttft_target_ms, itl_target_ms, shared_with_all, stopped, revision, created_at, updated_at, deleted_at,
    limits, replica_concurrency, asleep, running_usage) VALUES
    ('d1', 'small', 'm1', 'e1', 'c1', 'public/small', 'vllm', '', '["--max-num-seqs","8"]', '{"A":"1"}', 'NVIDIA GB10', 1, 2, 0,
        TRUE, 'interactive', 300, 40, FALSE, FALSE, 3, 1796040000000000, 1796040000000001, NULL, '{"requests_per_minute":600}', 16, FALSE, 'yes'),
    ('d2', 'open', 'm1', 'e1', 'c1', 'public/open', 'sim', '', 'null', 'null', '', 0, 1, 4096,
        FALSE, 'batch', 0, 0, TRUE, FALSE, 1, 1796041000000000, 1796041000000000, NULL, '{}', 0, TRUE, ''),
    ('d0', 'small', NULL, NULL, NULL, 'public/small', 'vllm', '', '[]', '{}', '', 1, 1, 0,
        TRUE, 'interactive', 0, 0, FALSE, TRUE, 1, 1796030000000000, 1796030000000000, 1796039000000000, '{"requests_per_minute":30}', 0, FALSE, '');
INSERT INTO aliases (id, name, created_at, updated_at) VALUES ('a1', 'gpt-4', 1796040000000000, 1796040000000001);
INSERT INTO alias_targets (alias_id, deployment_id, fallback, position, weight) VALUES ('a1', 'd1', FALSE, 0, 3), ('a1', 'd2', TRUE, 1, 1);
INSERT INTO deployment_tenants (deployment_id, tenant_id) VALUES ('d1', 't1');
INSERT INTO prices (id, deployment_id, version, free, currency, input, cached_input, output, valid_from) VALUES
    ('v1', 'd1', 1, FALSE, 'USD', '0.15', '0.03', '0.60', 1796040000000000),
    ('v2', 'd1', 2, FALSE, 'USD', '0.20', '0.20', '0.80', 1796041000000000),
    ('v3', 'd2', 1, TRUE, 'USD', '0', '0', '0', 1796040000000000),
    ('v0', 'd0', 1, FALSE, 'EUR', '1', '1', '2', 1796030000000000);
INSERT INTO replicas (id, deployment_id, node_id, gpu_uuids, revision, stopping, state, reason, last_lines, url, served_name, pid, restarts, progress, started_at, ready_at, updated_at, created_at) VALUES
    ('r1', 'd1', 'n1', '["GPU-1"]', 3, FALSE, 'ready', '', '["up"]', 'http://192.0.2.1:8000', 'public/small', 42, 1, '', 1796040000000000, 1796040000000002, 1796040000000003, 1796040000000000),
    ('r2', 'd1', NULL, 'null', 3, FALSE, 'pending', 'No room.', 'null', '', '', 0, 0, '', NULL, NULL, 1796040000000000, 1796040000000001);
INSERT INTO keys (id, tenant_id, name, prefix, hash, scope, limits, created_by, created_at, expires_at, revoked_at, last_used_at) VALUES
    ('k1', 't1', 'ci', 'sk-tf-abc', 'hash-1', 'inference', '{"requests_per_minute":60}', 'ada@example.org', 1796040000000000, 1797040000000000, NULL, 1796040000000007),
    ('k2', 't1', 'free', 'sk-tf-def', 'hash-2', 'management', '{}', 'ada@example.org', 1796040000000000, NULL, NULL, NULL),
    ('k0', 't0', 'old', 'sk-tf-old', 'hash-0', 'inference', '{"requests_per_minute":5}', '', 1796030000000000, NULL, 1796039000000000, NULL);
-- Three requests in one quarter, one in the last quarter of that day (2026-11-30), one on the day after.
INSERT INTO usage_rows (id, tenant_id, key_id, deployment_id, replica_id, price_id, endpoint, model_asked, model_served, status, flags, stream, attempts,
    prompt_tokens, cached_tokens, completion_tokens, started_at, queue_ms, ttft_ms, e2e_ms) VALUES
    ('q1', 't1', 'k1', 'd1', 'r1', 'v1', 'chat.completions', 'public/small', 'public/small', 200, '', TRUE, 1, 100, 40, 10, 1796040000000001, 0.5, 81.25, 900),
    ('q2', 't1', 'k1', 'd1', 'r1', 'v1', 'chat.completions', 'public/small', 'public/small', 200, 'estimated', FALSE, 2, 200, 0, 20, 1796040000000002, NULL, NULL, NULL),
    ('q3', 't0', 'k0', 'd0', '', 'v0', 'embeddings', 'public/small', 'public/small', 499, 'aborted', TRUE, 1, 7, 0, 0, 1796040000000003, NULL, NULL, NULL),
    ('q4', 't1', 'k1', 'd1', 'r1', 'v2', 'completions', 'public/small', 'public/small', 200, '', TRUE, 1, 400, 0, 40, 1796083199999999, NULL, NULL, NULL),
    ('q5', 't1', 'k2', 'd1', 'r1', 'v2', 'completions', 'public/small', 'public/small', 200, '', TRUE, 1, 800, 0, 80, 1796083200000000, NULL, NULL, NULL);
INSERT INTO usage_rollups (quarter_us, tenant_id, key_id, deployment_id, price_id, requests, prompt_tokens, cached_tokens, completion_tokens, estimated, aborted) VALUES
    (1796040000000000, 't1', 'k1', 'd1', 'v1', 2, 300, 40, 30, 1, 0),
    (1796040000000000, 't0', 'k0', 'd0', 'v0', 1, 7, 0, 0, 0, 1),
    (1796082300000000, 't1', 'k1', 'd1', 'v2', 1, 400, 0, 40, 0, 0),
    (1796083200000000, 't1', 'k2', 'd1', 'v2', 1, 800, 0, 80, 0, 0);
INSERT INTO usage_days (day_us, tenant_id, key_id, deployment_id, price_id, requests, prompt_tokens, cached_tokens, completion_tokens) VALUES
    (1795996800000000, 't1', 'k1', 'd1', 'v1', 2, 300, 40, 30),
    (1795996800000000, 't0', 'k0', 'd0', 'v0', 1, 7, 0, 0),
    (1795996800000000, 't1', 'k1', 'd1', 'v2', 1, 400, 0, 40),
    (1796083200000000, 't1', 'k2', 'd1', 'v2', 1, 800, 0, 80);
INSERT INTO refusals (quarter_us, tenant_id, key_id, deployment_id, scope, kind, count) VALUES
    (1796040000000000, 't1', 'k1', 'd1', 'key', 'requests', 4),
    (1796040000000000, 't0', 'k0', 'd0', 'tenant', 'tokens', 1);
-- Two replicas in one step, every resolution, and of a deployment that is gone.
INSERT INTO metric_buckets (deployment_id, step_s, name, start_us, replica_id, count, sum, max, sketch) VALUES
    ('d1', 10, 'kv_cache', 1796040000000000, 'r1', 2, 0.5, 0.375, NULL),
    ('d1', 10, 'kv_cache', 1796040000000000, 'r2', 1, 0.125, 0.125, NULL),
    ('d1', 60, 'kv_cache', 1796040000000000, 'r1', 12, 6.25, 0.875, NULL),
    ('d1', 3600, 'output_tokens', 1796040000000000, 'r1', 3, 70, 40, NULL),
    ('d1', 3600, 'output_tokens', 1796043600000000, '', 1, 7, 7, NULL),
    ('d1', 3600, 'ttft', 1796040000000000, 'r1', 2, 250.5, 200.25, CAST('sketch' AS BYTES)),
    ('d0', 3600, 'output_tokens', 1796029200000000, 'r0', 9, 90, 20, NULL);
