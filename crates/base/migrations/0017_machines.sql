-- A whole machine that a tenant may have left something on: from the task that makes the account on, until a signed result
-- says that nothing of it is there. Nobody else gets the machine before.
create table if not exists machine_dirt (
    op_id          uuid primary key,
    node_id        uuid not null references node (id),
    allocation_id  uuid not null,
    since          timestamptz not null,
    cleaned_at     timestamptz,
    cleaned_by     uuid references task (id)
);
create unique index if not exists machine_dirt_open on machine_dirt (node_id) where cleaned_at is null;
create index if not exists machine_dirt_by_allocation on machine_dirt (allocation_id);
create index if not exists machine_dirt_by_task on machine_dirt (cleaned_by);
grant select, insert, update (cleaned_at, cleaned_by) on machine_dirt to gpuaas_app;

-- Nobody has the machine, and something of its last tenant may be there.
alter table node add column if not exists left_over_since timestamptz;

create or replace function machine_is_clean() returns trigger language plpgsql as $$
begin
    if exists (select from machine_dirt where node_id = new.node_id and cleaned_at is null) then
        raise exception 'a tenant may have left something on the machine' using errcode = '23514', constraint = 'machine_clean';
    end if;
    return new;
end $$;
create or replace trigger machine_is_clean before insert on lease
    for each row when (new.slot_id is null) execute function machine_is_clean();

create or replace function machine_dirt_ends_once() returns trigger language plpgsql as $$
begin
    if old.cleaned_at is not null then
        raise exception 'what was cleaned stays so' using errcode = '23514', constraint = 'machine_cleaned_once';
    end if;
    return new;
end $$;
create or replace trigger machine_dirt_ends_once before update on machine_dirt
    for each row execute function machine_dirt_ends_once();

-- Looked at when the change ends: the result and what follows from it are one change.
create or replace function machine_is_cleaned_by_proof() returns trigger language plpgsql as $$
begin
    if new.cleaned_at is null or exists (
           select from task t where t.id = new.cleaned_by and t.node_id = new.node_id and t.state = 'succeeded'
              and t.task_type = 'allocation.deprovision_user' and t.result is not null and t.created_at >= new.since)
       or (new.cleaned_by is null and not exists (
           select from task t where t.op_id = new.op_id and (t.fence is not null or t.ended_at is null))) then
        return null;
    end if;
    raise exception 'nobody has signed that the machine is clean' using errcode = '23514', constraint = 'machine_cleaned';
end $$;
drop trigger if exists machine_is_cleaned_by_proof on machine_dirt;
create constraint trigger machine_is_cleaned_by_proof after update on machine_dirt
    deferrable initially deferred for each row execute function machine_is_cleaned_by_proof();

-- Whether a machine that is ready is one that a SKU promises, and nobody has it.
create or replace function machine_fits(n node, gpu_model text, gpu_count int) returns boolean language sql stable as $$
    select jsonb_array_length(coalesce(n.last_probe -> 'gpus', '[]')) = gpu_count
       and not exists (select from jsonb_array_elements(n.last_probe -> 'gpus') gpu
                       where lower(gpu ->> 'model') <> lower(gpu_model))
       and not exists (select from lease l where l.node_id = n.id and l.ended_at is null)
       and not exists (select from machine_dirt d where d.node_id = n.id and d.cleaned_at is null)
$$;
create index if not exists node_machines on node (id) where mode = 'machine' and state = 'ready';
