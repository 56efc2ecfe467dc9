-- Who this installation is. One row, made at the first start and never changed.
create table if not exists installation (
    only_one    boolean primary key default true check (only_one),
    id          uuid not null,
    cursor_key  bytea not null check (length(cursor_key) = 32),
    created_at  timestamptz not null
);

create table if not exists app_user (
    id              uuid primary key,
    name            text not null unique check (length(name) between 1 and 128),
    platform_roles  text[] not null default '{}',
    created_at      timestamptz not null,
    disabled_at     timestamptz,
    version         bigint not null default 1
);

-- A token is stored as its digest: the secret itself is shown once, to the person who made it.
create table if not exists api_token (
    id            uuid primary key,
    user_id       uuid not null references app_user (id),
    name          text not null check (length(name) between 1 and 128),
    sha256        bytea not null unique check (length(sha256) = 32),
    scopes        text[] not null,
    expires_at    timestamptz not null,
    created_at    timestamptz not null,
    last_used_at  timestamptz,
    revoked_at    timestamptz
);
create index if not exists api_token_by_user on api_token (user_id, created_at);

-- Events, written in the transaction of the change they tell of. `seq` is stamped later, by one relay, in the order
-- in which readers may trust it: `drawn` is drawn before the commit, so a cursor on it would skip slow transactions.
-- It orders what is stamped together: it is drawn last in its transaction, under the locks of what was changed.
create table if not exists outbox (
    id              uuid primary key,
    drawn           bigint generated always as identity,
    seq             bigint unique,
    kind            text not null,
    subject_kind    text not null,
    subject_id      text not null,
    data            jsonb not null,
    correlation_id  uuid not null,
    created_at      timestamptz not null,
    published_at    timestamptz
);
create index if not exists outbox_unstamped on outbox (drawn) where seq is null;
create index if not exists outbox_by_subject on outbox (subject_kind, subject_id, seq);

-- Who did or tried what. The text of `details` is what the seal covers; the jsonb beside it is for queries only and
-- cannot differ, because the database derives it.
create table if not exists audit (
    id              uuid primary key,
    at              timestamptz not null,
    actor_kind      text not null check (actor_kind in ('user', 'token', 'node', 'system', 'role')),
    actor_id        text not null,
    address         text,
    action          text not null,
    target_kind     text not null,
    target_id       text not null,
    outcome         text not null check (outcome in ('ok', 'refused', 'failed')),
    code            text,
    correlation_id  uuid not null,
    details_text    text not null default '{}',
    details         jsonb generated always as (details_text::jsonb) stored
);
create index if not exists audit_by_time on audit (at desc, id desc);
create index if not exists audit_by_target on audit (target_kind, target_id, at desc);
create index if not exists audit_by_actor on audit (actor_id, at desc);

-- The chain: positions without gaps, each hash covering the row and the hash before it.
create table if not exists audit_seal (
    pos       bigint primary key check (pos > 0),
    audit_id  uuid not null unique references audit (id),
    hash      bytea not null check (length(hash) = 32)
);

-- Where the chain ends, so that a chain cut short is seen.
create table if not exists audit_head (
    only_one  boolean primary key default true check (only_one),
    pos       bigint not null,
    hash      bytea not null
);

grant select, insert on installation to gpuaas_app;
grant select, insert, update on app_user to gpuaas_app;
grant select, insert, update on api_token to gpuaas_app;
grant select, insert on outbox to gpuaas_app;
grant update (seq, published_at) on outbox to gpuaas_app;
grant delete on outbox to gpuaas_app;
-- Insert and read, nothing else: what is written stays written.
grant select, insert on audit to gpuaas_app;
grant select on audit_seal, audit_head to gpuaas_app;
grant select on audit to gpuaas_sealer;
grant select, insert on audit_seal to gpuaas_sealer;
grant select, insert, update on audit_head to gpuaas_sealer;
