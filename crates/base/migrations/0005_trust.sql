-- Rotations of signing keys that somebody asked for and that wait until every node knows the next key.
create table if not exists trust_rotation (
    purpose   text primary key check (purpose in ('slice', 'allocation', 'terminal', 'oci', 'diag')),
    asked_at  timestamptz not null,
    asked_by  text not null check (length(asked_by) <= 256)
);

grant select, insert, delete on trust_rotation to gpuaas_app;
