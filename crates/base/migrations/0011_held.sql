-- What a node's executor has last signed about what it holds, and where that differs from what is known here.
create table if not exists node_held (
    node_id      uuid primary key references node (id),
    epoch        bigint not null,
    number       bigint not null,
    boot_id      text not null,
    -- By the executor's clock, and by ours.
    at           timestamptz not null,
    received_at  timestamptz not null,
    holds        jsonb not null,
    differences  jsonb not null default '[]',
    envelope     bytea not null
);

grant select, insert, update on node_held to gpuaas_app;
