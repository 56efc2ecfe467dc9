-- Slots: what one guest can have of a host. A slot is given to one tenant at a time and to the next one only after a
-- proof. Three kinds of rows pin a slot while they are open: a lease, dirt, a quarantine. Each is written once and can
-- only be ended, dirt and quarantine by a proof that is younger than they are; as long as one is open, its foreign key
-- holds the slot's column, and the checks of `slot` hold the state.

-- Proofs, dirt and quarantines draw their numbers here, so that "younger" is a comparison of two numbers. Nobody can
-- choose one: the columns cannot be inserted.
create sequence if not exists slot_no;

-- What leases refer to: a node's mode cannot change under an open one.
create unique index if not exists node_by_mode on node (id, mode);

-- The latest discovery, and the wish to come back from a drain.
alter table node add column if not exists topology jsonb;
alter table node add column if not exists topology_at timestamptz;
alter table node add column if not exists return_asked_at timestamptz;

-- Which slots a task is about, for whoever hands it out.
alter table task add column if not exists slots uuid[];

create table if not exists slot (
    -- Derived from the node and the devices: the same devices are the same slot, wherever they stand in a list.
    id               uuid primary key,
    node_id          uuid not null references node (id),
    slot_index       int not null check (slot_index between 0 and 255),
    pci_address      text not null,
    fabric_device    text,
    nvme_device      text not null,
    nvme_serial      text not null,
    nvme_wwn         text not null,
    nvme_size_bytes  bigint not null check (nvme_size_bytes > 0),
    numa_node        int,
    vcpu_count       int not null,
    memory_mib       bigint not null,
    mac_address      text not null,
    private_ip       text not null,
    -- What the latest discovery said of its GPU, and what it said when somebody approved it.
    gpu              jsonb not null,
    baseline         jsonb,
    -- What stands in its way, as of the latest discovery; and whether it has changed since it was approved.
    blockers         jsonb not null default '[]',
    warnings         jsonb not null default '[]',
    fault            text,
    fault_detail     text,
    fault_since      timestamptz,
    seen_at          timestamptz not null,
    approved_at      timestamptz,
    approved_by      text,
    state            text not null check (state in
                         ('candidate', 'free', 'reserved', 'leased', 'releasing', 'quarantined', 'rejected', 'retired')),
    state_since      timestamptz not null,
    state_reason     text,
    lease_id         uuid,
    dirty_op         uuid,
    quarantine_no    bigint,
    created_at       timestamptz not null,
    version          bigint not null default 1,
    unique (id, node_id),
    unique (id, lease_id),
    unique (id, dirty_op),
    unique (id, quarantine_no),
    unique (id, nvme_serial, nvme_wwn, nvme_size_bytes),
    check (state in ('candidate', 'rejected') or (approved_at is not null and baseline is not null)),
    constraint slot_held check ((state in ('reserved', 'leased', 'releasing')) = (lease_id is not null)),
    constraint slot_in_quarantine check ((state = 'quarantined') = (quarantine_no is not null)),
    -- Free, reserved or out of service only when nothing of a tenant can be on it.
    constraint slot_clean check (dirty_op is null or state in ('leased', 'releasing', 'quarantined')),
    constraint slot_used check (state not in ('leased', 'releasing') or dirty_op is not null)
);
-- Two slots in service share nothing.
create unique index if not exists slot_index_once on slot (node_id, slot_index)
    where state not in ('candidate', 'rejected', 'retired');
create unique index if not exists slot_gpu_once on slot (node_id, pci_address)
    where state not in ('candidate', 'rejected', 'retired');
create unique index if not exists slot_fabric_once on slot (node_id, fabric_device)
    where state not in ('candidate', 'rejected', 'retired') and fabric_device is not null;
create unique index if not exists slot_disk_once on slot (node_id, nvme_serial, nvme_wwn)
    where state not in ('candidate', 'rejected', 'retired');
create index if not exists slot_by_time on slot (created_at desc, id desc);
create index if not exists slot_by_node on slot (node_id, slot_index);
create index if not exists slot_free on slot (node_id) where state = 'free';
create index if not exists slot_by_disk on slot (nvme_serial, nvme_wwn);

-- Who has a slot, or a whole node. An open lease of a slot needs a node in slice mode, one of the node itself a node
-- in machine mode; so no two tenants meet, and the mode stays as it is until both kinds are gone.
create table if not exists lease (
    id             uuid primary key,
    node_id        uuid not null references node (id),
    slot_id        uuid,
    allocation_id  uuid not null,
    since          timestamptz not null,
    ended_at       timestamptz,
    end_reason     text,
    needs_mode     text generated always as
                       (case when ended_at is not null then null when slot_id is null then 'machine' else 'slice' end) stored,
    open_id        uuid generated always as (case when ended_at is null then id end) stored,
    unique (id, slot_id),
    foreign key (slot_id, node_id) references slot (id, node_id),
    constraint lease_mode foreign key (node_id, needs_mode) references node (id, mode),
    constraint lease_pins_slot foreign key (slot_id, open_id) references slot (id, lease_id)
        deferrable initially deferred
);
create unique index if not exists lease_slot_once on lease (slot_id) where ended_at is null and slot_id is not null;
create unique index if not exists lease_node_once on lease (node_id) where ended_at is null and slot_id is null;
create index if not exists lease_by_allocation on lease (allocation_id);

-- What a node's executor has signed about a slot. Written once, kept for ever; `proof` is its own words.
create table if not exists slot_proof (
    no               bigint primary key default nextval('slot_no'),
    slot_id          uuid not null references slot (id),
    task_id          uuid not null references task (id),
    op_id            uuid not null,
    kind             text not null check (kind in ('wipe', 'untouched', 'reset')),
    -- The disk's serial or the function's address; empty for `untouched`.
    subject          text not null,
    clean            boolean not null,
    disk_serial      text,
    disk_wwn         text,
    disk_size_bytes  bigint,
    proof            jsonb not null,
    created_at       timestamptz not null,
    unique (task_id, slot_id, kind, subject),
    unique (no, slot_id, kind, clean),
    unique (no, slot_id, kind, clean, op_id),
    check ((kind = 'wipe') = (disk_serial is not null and disk_wwn is not null and disk_size_bytes is not null)),
    -- Of this slot's disk and of no other.
    constraint slot_proof_disk foreign key (slot_id, disk_serial, disk_wwn, disk_size_bytes)
        references slot (id, nvme_serial, nvme_wwn, nvme_size_bytes),
    -- A wipe is clean when its figures say so, whatever else is claimed.
    constraint slot_proof_figures check (kind <> 'wipe' or not clean or (
        (proof ->> 'verdict' = 'clean' and (proof ->> 'tool_rc')::bigint = 0
         and (proof ->> 'markers_planted')::bigint > 0 and (proof ->> 'markers_found')::bigint = 0
         and (proof ->> 'signatures_found')::bigint = 0 and (proof ->> 'blocks_not_zero')::bigint = 0
         and (proof ->> 'method' not in ('write_zeroes', 'overwrite')
              or (proof ->> 'read_back_bytes')::bigint = disk_size_bytes)) is true))
);
create index if not exists slot_proof_by_slot on slot_proof (slot_id, no desc);

-- Which operation may have left something of a tenant on a slot. Ended by a clean wipe, or by that same operation's
-- own proof that it never began to write.
create table if not exists slot_dirt (
    no           bigint primary key default nextval('slot_no'),
    slot_id      uuid not null references slot (id),
    op_id        uuid not null,
    task_id      uuid not null references task (id),
    since        timestamptz not null,
    ended_by     bigint,
    ended_kind   text check (ended_kind in ('wipe', 'untouched')),
    ended_op     uuid,
    ended_at     timestamptz,
    open_op      uuid generated always as (case when ended_by is null then op_id end) stored,
    ended_clean  boolean generated always as (case when ended_by is not null then true end) stored,
    check (num_nonnulls(ended_by, ended_kind, ended_op, ended_at) in (0, 4)),
    check (ended_by > no),
    check (ended_kind <> 'untouched' or ended_op = op_id),
    constraint slot_dirt_pins_slot foreign key (slot_id, open_op) references slot (id, dirty_op)
        deferrable initially deferred,
    constraint slot_dirt_proof foreign key (ended_by, slot_id, ended_kind, ended_clean, ended_op)
        references slot_proof (no, slot_id, kind, clean, op_id)
);
create unique index if not exists slot_dirt_open on slot_dirt (slot_id) where ended_by is null;

-- Why a slot is not given to anybody. Ended by a clean wipe that came after it, and by nothing else.
create table if not exists slot_quarantine (
    no           bigint primary key default nextval('slot_no'),
    slot_id      uuid not null references slot (id),
    code         text not null,
    reason       text not null,
    since        timestamptz not null,
    ended_by     bigint,
    ended_at     timestamptz,
    open_no      bigint generated always as (case when ended_by is null then no end) stored,
    ended_kind   text generated always as (case when ended_by is not null then 'wipe' end) stored,
    ended_clean  boolean generated always as (case when ended_by is not null then true end) stored,
    unique (no, slot_id),
    check (num_nonnulls(ended_by, ended_at) in (0, 2)),
    check (ended_by > no),
    constraint slot_quarantine_pins_slot foreign key (slot_id, open_no) references slot (id, quarantine_no)
        deferrable initially deferred,
    constraint slot_quarantine_proof foreign key (ended_by, slot_id, ended_kind, ended_clean)
        references slot_proof (no, slot_id, kind, clean)
);
create unique index if not exists slot_quarantine_open on slot_quarantine (slot_id) where ended_by is null;

-- The other way round: what a slot names is there, and its own.
do $$
begin
    if not exists (select from pg_constraint where conname = 'slot_names_lease') then
        alter table slot add constraint slot_names_lease foreign key (lease_id, id)
            references lease (id, slot_id) deferrable initially deferred;
    end if;
    if not exists (select from pg_constraint where conname = 'slot_names_quarantine') then
        alter table slot add constraint slot_names_quarantine foreign key (quarantine_no, id)
            references slot_quarantine (no, slot_id) deferrable initially deferred;
    end if;
end
$$;

grant usage on sequence slot_no to gpuaas_app;
-- Which devices a slot is made of is said once.
grant select, insert, delete on slot to gpuaas_app;
grant update (slot_index, nvme_device, numa_node, vcpu_count, memory_mib, mac_address, private_ip, gpu, baseline, blockers,
              warnings, fault, fault_detail, fault_since, seen_at, approved_at, approved_by, state, state_since,
              state_reason, lease_id, dirty_op, quarantine_no, version) on slot to gpuaas_app;
grant select, insert on lease to gpuaas_app;
grant update (ended_at, end_reason) on lease to gpuaas_app;
grant select on slot_proof, slot_dirt, slot_quarantine to gpuaas_app;
grant insert (slot_id, task_id, op_id, kind, subject, clean, disk_serial, disk_wwn, disk_size_bytes, proof, created_at)
    on slot_proof to gpuaas_app;
grant insert (slot_id, op_id, task_id, since) on slot_dirt to gpuaas_app;
grant update (ended_by, ended_kind, ended_op, ended_at) on slot_dirt to gpuaas_app;
grant insert (slot_id, code, reason, since) on slot_quarantine to gpuaas_app;
grant update (ended_by, ended_at) on slot_quarantine to gpuaas_app;
