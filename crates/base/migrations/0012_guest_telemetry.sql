-- The last numbers that a guest has sent about itself. Shown to whoever may see the slot; no bill and no decision reads it.
create table if not exists guest_telemetry (
    allocation_id  uuid primary key,
    node_id        uuid not null references node (id),
    at             timestamptz not null,
    numbers        jsonb not null
);

grant select, insert, update, delete on guest_telemetry to gpuaas_app;
