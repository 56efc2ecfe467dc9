-- How many slots a node has to give, by GPU, so that whoever rents is led to the nodes that have enough. Counted anew from
-- the slots themselves with every change of one, so that no count stays wrong; the application cannot write it. Whoever
-- changes a slot holds its node's lock, so nobody waits here. It refers to no other table: making that would lock a
-- second one, and whoever is at work while this migration runs may hold the two in another order.
create table if not exists node_room (
    node_id    uuid not null,
    gpu_model  text not null,
    free       int not null check (free >= 0),
    primary key (node_id, gpu_model)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
create index if not exists node_room_by_free on node_room (gpu_model, free, node_id) where free > 0;

-- The GPU of a slot that is to be had; null for any other.
create or replace function slot_to_be_had(s slot) returns text language sql immutable as $$
    select case when s.state = 'free' and s.fault is null then lower(coalesce(s.gpu ->> 'model', '')) end
$$;

create or replace function slot_changes_room() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    was text := case when tg_op <> 'INSERT' then slot_to_be_had(old) end;
    becomes text := case when tg_op <> 'DELETE' then slot_to_be_had(new) end;
begin
    if tg_op = 'UPDATE' and was is not distinct from becomes then
        return null;
    end if;
    insert into node_room (node_id, gpu_model, free)
    select coalesce(new.node_id, old.node_id), model,
           (select count(*) from slot s
            where s.node_id = coalesce(new.node_id, old.node_id) and s.state = 'free' and slot_to_be_had(s) = model)
    from (select was as model union select becomes) changed
    where model is not null
    on conflict (node_id, gpu_model) do update set free = excluded.free;
    return null;
end
$$;

create or replace trigger slot_changes_room after insert or delete or update of state, fault, gpu on slot
    for each row execute function slot_changes_room();

-- What is there already. The trigger's lock keeps everybody else out until this is committed.
insert into node_room (node_id, gpu_model, free)
select node_id, slot_to_be_had(s), count(*) from slot s where slot_to_be_had(s) is not null group by 1, 2
on conflict (node_id, gpu_model) do update set free = excluded.free;

grant select on node_room to gpuaas_app;

-- A trigger's function runs with its owner's rights, and a trigger can be put on a table of one's own: only the owner may.
revoke execute on function slot_changes_room() from public;
revoke execute on function allocation_moved() from public;
revoke execute on function allocation_slot_ends() from public;
revoke execute on function project_keeps_owner() from public;
