-- A host that was let in. Its identity is (id, epoch): a new enrolment raises the epoch and ends everything older.
create table if not exists node (
    id                  uuid primary key,
    name                text not null check (name ~ '^[a-z0-9][a-z0-9.-]{0,62}$'),
    state               text not null check (state in
                            ('enrolling', 'ready', 'draining', 'drained', 'stale', 'quarantined', 'removed')),
    state_since         timestamptz not null,
    state_reason        text,
    -- Where a silent node goes back to once it has proved itself again.
    resume_state        text check (resume_state in ('ready', 'draining', 'drained')),
    mode                text not null check (mode in ('slice', 'machine')),
    simulated           boolean not null default false,
    epoch               bigint not null default 0,
    facts               jsonb not null default '{"hostname":"","provider":null,"private_ip":null}',
    hardware            jsonb not null default '{"dmi_uuid":null,"board_serial":null,"tpm_ek_sha256":null}',
    versions            jsonb,
    task_types          jsonb not null default '[]',
    manifest_version    bigint,
    session_id          uuid,
    session_since       timestamptz,
    boot_id             text,
    result_public       bytea check (length(result_public) = 32),
    -- Counts the tasks of this epoch, and the operations that no allocation names.
    task_seq            bigint not null default 0,
    op_counter          bigint not null default 0,
    last_seen_at        timestamptz,
    last_probe          jsonb,
    last_probe_at       timestamptz,
    -- When a probe was last asked for, and how often since one succeeded: each further one waits longer.
    probe_asked_at      timestamptz,
    probe_tries         int not null default 0,
    self_probe          jsonb,
    self_probe_at       timestamptz,
    created_at          timestamptz not null,
    version             bigint not null default 1
);
create unique index if not exists node_name on node (name) where state <> 'removed';
create index if not exists node_by_time on node (created_at desc, id desc);

-- One-time tokens. `used_by` is the device key that used it: the same key may ask again, another may not.
create table if not exists enrolment (
    id             uuid primary key,
    node_id        uuid not null references node (id),
    secret_sha256  bytea not null unique check (length(secret_sha256) = 32),
    board_serial   text,
    expires_at     timestamptz not null,
    used_by        bytea,
    used_at        timestamptz,
    answer         jsonb,
    created_at     timestamptz not null
);
create index if not exists enrolment_by_node on enrolment (node_id);

-- Every certificate this installation has issued to somebody else, kept for the life of the installation.
create table if not exists certificate (
    serial         text primary key,
    kind           text not null check (kind in ('working', 'device', 'role')),
    node_id        uuid references node (id),
    role           text,
    epoch          bigint,
    generation     bigint not null default 0,
    not_before     timestamptz not null,
    not_after      timestamptz not null,
    first_used_at  timestamptz,
    revoked_at     timestamptz,
    revoked_why    text,
    created_at     timestamptz not null,
    check ((kind = 'role') = (node_id is null)),
    check ((kind = 'role') = (role is not null))
);
create index if not exists certificate_by_node on certificate (node_id, created_at desc);
create index if not exists certificate_live on certificate (not_after) where revoked_at is null and kind <> 'device';

-- Renewal tokens that were used; a token works once.
create table if not exists renewal_token (
    jti         text primary key,
    expires_at  timestamptz not null
);

-- The signed documents that nodes trust, one row per manifest version.
create table if not exists trust_bundle (
    manifest_version  bigint primary key check (manifest_version > 0),
    delegation        bytea not null,
    manifest          bytea not null,
    created_at        timestamptz not null
);

-- What people were authorised to ask for, signed when they were. The wish lies beside it, under its signed digest.
create table if not exists intent (
    sha256         bytea primary key check (length(sha256) = 32),
    id             uuid not null unique,
    allocation_id  uuid not null,
    generation     int not null,
    envelope       bytea not null,
    wish           bytea not null,
    withdrawn_at   timestamptz,
    created_at     timestamptz not null
);
-- Two wishes of one generation would share their operations.
create unique index if not exists intent_by_allocation on intent (allocation_id, generation);

create sequence if not exists task_fence;

create table if not exists task (
    id               uuid primary key,
    op_id            uuid not null,
    issue            int not null,
    node_id          uuid not null references node (id),
    node_epoch       bigint not null,
    seq              bigint not null,
    task_type        text not null,
    type_version     int not null,
    keyid            text not null,
    -- The signed bytes as they go to the node. Never jsonb: it would rewrite them.
    envelope         bytea not null,
    payload_sha256   bytea not null,
    intent_sha256    bytea,
    state            text not null check (state in
                         ('queued', 'dispatched', 'started', 'unknown', 'succeeded', 'failed', 'expired', 'cancelled')),
    phase            text,
    fence            bigint,
    lease_until      timestamptz,
    -- The session that the task was last handed to, and the session that named it as its own.
    delivered_to     uuid,
    delivered_at     timestamptz,
    named_by         uuid,
    cancel_at        timestamptz,
    actor_ref        text not null,
    correlation_id   uuid not null,
    created_at       timestamptz not null,
    start_by         timestamptz not null,
    dispatched_at    timestamptz,
    started_at       timestamptz,
    ended_at         timestamptz,
    code             text,
    detail           text,
    timings          jsonb not null default '{}',
    undone           jsonb not null default '[]',
    output           jsonb,
    result           bytea,
    version          bigint not null default 1,
    unique (op_id, issue),
    -- Nothing succeeded that never started, and nothing ended without a time.
    check (state <> 'succeeded' or started_at is not null),
    check ((state in ('succeeded', 'failed', 'expired', 'cancelled')) = (ended_at is not null)),
    check (state in ('queued', 'expired', 'cancelled', 'failed') or fence is not null)
);
create index if not exists task_queued on task (node_id, seq) where state = 'queued';
create index if not exists task_out on task (node_id) where state in ('dispatched', 'started', 'unknown');
create index if not exists task_open_op on task (op_id) where state in ('queued', 'dispatched', 'started', 'unknown');
create index if not exists task_by_time on task (created_at desc, id desc);
create index if not exists task_by_node on task (node_id, created_at desc, id desc);

grant select, insert, update on node to gpuaas_app;
grant select, insert, update on enrolment to gpuaas_app;
grant select, insert, update on certificate to gpuaas_app;
grant select, insert, delete on renewal_token to gpuaas_app;
grant select, insert on trust_bundle to gpuaas_app;
grant select, insert on intent to gpuaas_app;
grant update (withdrawn_at) on intent to gpuaas_app;
grant select, insert, update on task to gpuaas_app;
grant usage on sequence task_fence to gpuaas_app;
