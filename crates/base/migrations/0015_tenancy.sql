-- Tenancy: projects and who is in them, the catalogue, quotas, allocations and their history, the time that is used,
-- and the journal of workflows. What must never be otherwise is held here: which moves exist, that an end is an end,
-- that no quota is passed, that every state that should pass has a deadline, and that used time is written down.

create extension if not exists btree_gist;

create table if not exists project (
    id          uuid primary key,
    name        text not null unique check (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    created_at  timestamptz not null,
    version     bigint not null default 1
);
create index if not exists project_by_time on project (created_at desc, id desc);

create table if not exists project_member (
    project_id  uuid not null references project (id),
    user_id     uuid not null references app_user (id),
    role        text not null check (role in ('viewer', 'member', 'admin', 'owner')),
    since       timestamptz not null,
    primary key (project_id, user_id)
);
create index if not exists project_member_by_user on project_member (user_id, project_id);

-- Keys that a person's machines let in.
create table if not exists ssh_key (
    id          uuid primary key,
    user_id     uuid not null references app_user (id),
    name        text not null check (length(name) between 1 and 64),
    public_key  text not null check (length(public_key) <= 16384),
    created_at  timestamptz not null,
    unique (user_id, name)
);

-- What a project may have at once, and what it has: the second is counted by the database and by nobody else.
create table if not exists quota (
    project_id           uuid primary key references project (id),
    slots                int not null default 8 check (slots >= 0),
    slots_per_sku        int check (slots_per_sku >= 0),
    allocations          int not null default 8 check (allocations >= 0),
    terminals            int not null default 10 check (terminals >= 0),
    max_ttl_hours        int check (max_ttl_hours > 0),
    spend_per_day_micro  bigint check (spend_per_day_micro >= 0),
    slots_used           int not null default 0 check (slots_used >= 0),
    allocations_used     int not null default 0 check (allocations_used >= 0),
    version              bigint not null default 1
);

-- What can be rented. Its shape is said once; a new price is a new version.
create table if not exists sku (
    id          uuid primary key,
    name        text not null unique check (name ~ '^[a-z0-9][a-z0-9.-]{0,62}$'),
    kind        text not null check (kind in ('slice', 'machine')),
    gpu_model   text not null check (length(gpu_model) between 1 and 64),
    gpu_count   int not null check (gpu_count between 0 and 64),
    slots       int not null check (slots between 0 and 16),
    vcpu        int not null check (vcpu > 0),
    memory_mib  bigint not null check (memory_mib > 0),
    nvme_gib    bigint not null check (nvme_gib >= 0),
    fabric      boolean not null,
    images      jsonb not null,
    visible     boolean not null default true,
    version     int not null default 1,
    created_at  timestamptz not null,
    check ((kind = 'slice') = (slots > 0))
);
create index if not exists sku_by_time on sku (created_at desc, id desc);

create table if not exists sku_version (
    sku_id                uuid not null references sku (id),
    version               int not null check (version > 0),
    price_micro_per_hour  bigint not null check (price_micro_per_hour >= 0 and price_micro_per_hour < 9007199254740992),
    currency              text not null check (currency ~ '^[A-Z]{3}$'),
    created_at            timestamptz not null,
    created_by            text not null,
    primary key (sku_id, version)
);

do $$
begin
    if not exists (select from pg_constraint where conname = 'sku_has_price') then
        alter table sku add constraint sku_has_price foreign key (id, version)
            references sku_version (sku_id, version) deferrable initially deferred;
    end if;
end
$$;

create table if not exists allocation (
    id                    uuid primary key,
    project_id            uuid not null references quota (project_id),
    name                  text check (length(name) between 1 and 64),
    kind                  text not null check (kind in ('slice', 'machine')),
    sku_id                uuid not null,
    sku_version           int not null,
    slots                 int not null check (slots between 0 and 16),
    -- As pinned when it was made: price times quantity.
    rate_micro_per_hour   bigint not null check (rate_micro_per_hour >= 0 and rate_micro_per_hour < 9007199254740992),
    currency              text not null,
    creator_id            uuid not null references app_user (id),
    -- What was asked for, so that it can be asked for again.
    request               jsonb not null,
    node_id               uuid not null references node (id),
    intent_sha256         bytea not null,
    generation            int not null default 1 check (generation > 0),
    state                 text not null,
    state_since           timestamptz not null,
    state_reason          text not null,
    state_by              text not null,
    correlation_id        uuid not null,
    -- When somebody has to look if it has not moved on.
    deadline_at           timestamptz,
    ends_at               timestamptz,
    waiting_since         timestamptz,
    waiting_code          text,
    stuck_since           timestamptz,
    stuck_code            text,
    stuck_at              text,
    cancel_asked_at       timestamptz,
    forced                boolean not null default false,
    code                  text,
    detail                text,
    power                 text check (power in ('running', 'off')),
    power_task            uuid,
    private_ip            text,
    default_username      text,
    created_at            timestamptz not null,
    ended_at              timestamptz,
    version               bigint not null default 1,
    foreign key (sku_id, sku_version) references sku_version (sku_id, version),
    constraint allocation_state check (state in ('requested', 'provisioning', 'unwinding', 'active', 'releasing',
                                                 'released', 'failed', 'cancelled')),
    constraint allocation_deadline check (state not in ('requested', 'provisioning', 'unwinding', 'releasing')
                                          or deadline_at is not null),
    constraint allocation_ended check ((state in ('released', 'failed', 'cancelled')) = (ended_at is not null)),
    constraint allocation_stuck check (num_nonnulls(stuck_since, stuck_code, stuck_at) in (0, 3))
);
create index if not exists allocation_by_project on allocation (project_id, created_at desc, id desc);
create index if not exists allocation_by_time on allocation (created_at desc, id desc);
create index if not exists allocation_overdue on allocation (deadline_at) where ended_at is null and deadline_at is not null;
create index if not exists allocation_expiring on allocation (ends_at) where state = 'active' and ends_at is not null;
create index if not exists allocation_live_sku on allocation (project_id, sku_id) where ended_at is null;

-- Every move, told by the database itself, in the transaction that made it.
create table if not exists allocation_transition (
    allocation_id   uuid not null references allocation (id),
    version         bigint not null,
    from_state      text,
    to_state        text not null,
    at              timestamptz not null,
    reason          text not null,
    actor           text not null,
    code            text,
    correlation_id  uuid not null,
    primary key (allocation_id, version)
);

-- Which slots an allocation was given. Until it has ended they are nobody else's.
create table if not exists allocation_slot (
    allocation_id  uuid not null references allocation (id),
    slot_id        uuid not null references slot (id),
    since          timestamptz not null,
    ended_at       timestamptz,
    primary key (allocation_id, slot_id)
);
create unique index if not exists allocation_slot_once on allocation_slot (slot_id) where ended_at is null;

-- Time that may be charged: from the evidence of readiness to the acceptance of the release. `proven_until` is moved by
-- what nodes sign of what they hold; nothing later is ever charged.
create table if not exists usage_span (
    id                   uuid primary key default gen_random_uuid(),
    allocation_id        uuid not null references allocation (id),
    sku_id               uuid not null,
    sku_version          int not null,
    quantity             int not null check (quantity > 0),
    rate_micro_per_hour  bigint not null check (rate_micro_per_hour >= 0),
    span                 tstzrange not null,
    proven_until         timestamptz not null,
    charged_until        timestamptz not null,
    end_reason           text,
    foreign key (sku_id, sku_version) references sku_version (sku_id, version),
    constraint usage_span_ended check ((end_reason is null) = (upper_inf(span))),
    constraint usage_span_once exclude using gist (allocation_id with =, span with &&)
);
create unique index if not exists usage_span_open on usage_span (allocation_id) where end_reason is null;

-- One workflow per operation; its journal beside it, one row per move.
create table if not exists workflow (
    id             uuid primary key,
    flow           text not null,
    allocation_id  uuid not null references allocation (id),
    state          text not null check (state in ('running', 'undoing', 'done', 'undone', 'stuck')),
    epoch          bigint not null default 0,
    lease_until    timestamptz not null,
    due_at         timestamptz not null,
    waits_for      uuid,
    cancel_at      timestamptz,
    wait_reason    text,
    error          jsonb,
    created_at     timestamptz not null,
    ended_at       timestamptz,
    constraint workflow_ended check ((state in ('done', 'undone')) = (ended_at is not null))
);
create index if not exists workflow_due on workflow (due_at) where state in ('running', 'undoing');
create index if not exists workflow_waits on workflow (waits_for) where state in ('running', 'undoing') and waits_for is not null;
create index if not exists workflow_by_allocation on workflow (allocation_id, created_at);

create table if not exists workflow_step (
    workflow_id  uuid not null references workflow (id),
    seq          int not null,
    at           timestamptz not null,
    record       jsonb not null,
    primary key (workflow_id, seq)
);

-- Answers that were given under a caller's own key, for a day.
create table if not exists idempotency (
    user_id      uuid not null,
    route        text not null,
    key          text not null check (key ~ '^[A-Za-z0-9_-]{1,64}$'),
    body_sha256  bytea not null check (length(body_sha256) = 32),
    status       int not null,
    answer       jsonb not null,
    created_at   timestamptz not null,
    primary key (user_id, route, key)
);
create index if not exists idempotency_by_time on idempotency (created_at);

-- Which moves exist; that an end is an end; that every change raises the version; that nobody's allocation ends while
-- it still holds something.
create or replace function allocation_moves() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        if new.state <> 'requested' or new.version <> 1 then
            raise exception 'an allocation begins as requested' using errcode = '23514', constraint = 'allocation_begins';
        end if;
        return new;
    end if;
    if old.ended_at is not null then
        raise exception 'an allocation that has ended does not change' using errcode = '23514', constraint = 'allocation_final';
    end if;
    if new.version <> old.version + 1 then
        raise exception 'every change raises the version by one' using errcode = '23514', constraint = 'allocation_version';
    end if;
    if (new.id, new.project_id, new.kind, new.sku_id, new.sku_version, new.slots, new.rate_micro_per_hour, new.creator_id,
        new.created_at) is distinct from
       (old.id, old.project_id, old.kind, old.sku_id, old.sku_version, old.slots, old.rate_micro_per_hour, old.creator_id,
        old.created_at) then
        raise exception 'what was agreed stays' using errcode = '23514', constraint = 'allocation_pinned';
    end if;
    if new.state = old.state then
        return new;
    end if;
    if (old.state, new.state) not in (
        ('requested', 'provisioning'), ('requested', 'unwinding'), ('provisioning', 'active'), ('provisioning', 'unwinding'),
        ('unwinding', 'failed'), ('unwinding', 'cancelled'), ('active', 'releasing'), ('releasing', 'released')) then
        raise exception 'there is no way from % to %', old.state, new.state using errcode = '23514', constraint = 'allocation_moves';
    end if;
    if new.ended_at is not null and exists (select from lease where allocation_id = new.id and ended_at is null) then
        raise exception 'it still holds a slot or a node' using errcode = '23514', constraint = 'allocation_holds';
    end if;
    return new;
end
$$;

-- What follows from a move: its row in the history, the quota, the slots, the time that is used. The whole seconds
-- within: a span begins at the next one and ends at the last.
create or replace function allocation_moved() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
    has quota%rowtype;
begin
    if tg_op = 'UPDATE' and new.state = old.state then
        return null;
    end if;
    insert into allocation_transition (allocation_id, version, from_state, to_state, at, reason, actor, code, correlation_id)
    values (new.id, new.version, case when tg_op = 'UPDATE' then old.state end, new.state, new.state_since, new.state_reason,
            new.state_by, new.code, new.correlation_id);
    if tg_op = 'INSERT' then
        update quota set slots_used = slots_used + new.slots, allocations_used = allocations_used + 1
        where project_id = new.project_id returning * into has;
        if has.slots_used > has.slots then
            raise exception 'the project has no slots left' using errcode = '23514', constraint = 'quota_slots';
        end if;
        if has.allocations_used > has.allocations then
            raise exception 'the project has no allocations left' using errcode = '23514', constraint = 'quota_allocations';
        end if;
        return null;
    end if;
    if new.state = 'active' then
        insert into usage_span (allocation_id, sku_id, sku_version, quantity, rate_micro_per_hour, span, proven_until, charged_until)
        select new.id, new.sku_id, new.sku_version, 1, new.rate_micro_per_hour, tstzrange(begins, null), begins, begins
        from (select date_trunc('second', new.state_since + interval '999999 microseconds') as begins) as whole;
    elsif old.state = 'active' then
        update usage_span set span = tstzrange(lower(span), greatest(lower(span), date_trunc('second', new.state_since))),
                              end_reason = new.state_reason
        where allocation_id = new.id and end_reason is null;
    end if;
    if new.ended_at is not null then
        update allocation_slot set ended_at = new.ended_at where allocation_id = new.id and ended_at is null;
        update quota set slots_used = slots_used - new.slots, allocations_used = allocations_used - 1
        where project_id = new.project_id;
    end if;
    return null;
end
$$;

-- A slot is an allocation's if it has the lease of it.
create or replace function allocation_slot_is_leased() returns trigger language plpgsql as $$
begin
    if not exists (select from lease where slot_id = new.slot_id and allocation_id = new.allocation_id and ended_at is null) then
        raise exception 'the slot is not leased to this allocation' using errcode = '23514', constraint = 'allocation_slot_leased';
    end if;
    return new;
end
$$;

-- A project has an owner as long as it has anybody. One after the other: two owners who leave at once would each see
-- the other stay.
create or replace function project_keeps_owner() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
    perform from project where id = old.project_id for update;
    if old.role = 'owner' and not exists (select from project_member where project_id = old.project_id and role = 'owner') then
        raise exception 'the last owner cannot leave' using errcode = '23514', constraint = 'project_owner';
    end if;
    return null;
end
$$;

create or replace trigger allocation_moves before insert or update on allocation
    for each row execute function allocation_moves();
create or replace trigger allocation_moved after insert or update on allocation
    for each row execute function allocation_moved();
create or replace trigger allocation_slot_is_leased before insert on allocation_slot
    for each row execute function allocation_slot_is_leased();
create or replace trigger project_keeps_owner after update or delete on project_member
    for each row execute function project_keeps_owner();

grant select, insert on project to gpuaas_app;
grant select, insert, delete on project_member to gpuaas_app;
grant update (role, since) on project_member to gpuaas_app;
grant select, insert, delete on ssh_key to gpuaas_app;
grant select on quota to gpuaas_app;
grant insert (project_id) on quota to gpuaas_app;
grant update (slots, slots_per_sku, allocations, terminals, max_ttl_hours, spend_per_day_micro, version) on quota to gpuaas_app;
grant select, insert on sku to gpuaas_app;
grant update (visible, version, images) on sku to gpuaas_app;
grant select, insert on sku_version to gpuaas_app;
grant select, insert, update on allocation to gpuaas_app;
-- History is the database's own.
grant select on allocation_transition to gpuaas_app;
grant select on allocation_slot to gpuaas_app;
grant insert (allocation_id, slot_id, since) on allocation_slot to gpuaas_app;
grant select on usage_span to gpuaas_app;
grant update (proven_until) on usage_span to gpuaas_app;
grant select, insert, update on workflow to gpuaas_app;
grant select, insert on workflow_step to gpuaas_app;
grant select, insert, delete on idempotency to gpuaas_app;
