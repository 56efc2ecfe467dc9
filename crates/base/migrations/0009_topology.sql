-- A discovery is large, and a node's row is read with every task: what was found lies beside it.
alter table node drop column if exists topology;

create table if not exists node_topology (
    node_id        uuid primary key references node (id),
    found          jsonb not null,
    discovered_at  timestamptz not null
);

grant select, insert, update on node_topology to gpuaas_app;
