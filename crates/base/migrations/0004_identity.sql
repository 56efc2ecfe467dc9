-- What tells a copy of a node from the node itself.

-- The code behind a quarantine, where it decides how the node gets out of it.
alter table node add column if not exists quarantine_code text;
-- When the session that counts was last heard; another one that is heard as well later on is a second machine.
alter table node add column if not exists session_heard_at timestamptz;

-- A certificate whose successor is in use counts until then and no longer.
alter table certificate add column if not exists ends_at timestamptz;

-- The latest sessions of a node, and when each was first told that a newer one had taken over.
create table if not exists node_session (
    node_id    uuid not null references node (id),
    id         uuid not null,
    opened_at  timestamptz not null,
    told_at    timestamptz,
    primary key (node_id, id)
);
create index if not exists node_session_by_time on node_session (node_id, opened_at desc);

grant select, insert, update, delete on node_session to gpuaas_app;
