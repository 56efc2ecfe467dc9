-- How many slots a node has to give, by GPU, so that whoever rents looks at a few nodes and not at every slot of the
-- fleet. The database counts; the application cannot. Whoever changes a slot holds its node's lock, so nobody waits here.
create table if not exists node_room (
    node_id    uuid not null references node (id),
    gpu_model  text not null,
    free       int not null check (free >= 0),
    primary key (node_id, gpu_model)
);
create index if not exists node_room_by_free on node_room (gpu_model, free, node_id) where free > 0;

create or replace function slot_changes_room() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
    -- The model of a slot that is to be had; null for any other.
    was text := case when tg_op <> 'INSERT' and old.state = 'free' and old.fault is null then lower(coalesce(old.gpu ->> 'model', '')) end;
    becomes text := case when tg_op <> 'DELETE' and new.state = 'free' and new.fault is null then lower(coalesce(new.gpu ->> 'model', '')) end;
begin
    if was is not distinct from becomes then
        return null;
    end if;
    if was is not null then
        update node_room set free = free - 1 where node_id = old.node_id and gpu_model = was;
    end if;
    if becomes is not null then
        insert into node_room (node_id, gpu_model, free) values (new.node_id, becomes, 1)
        on conflict (node_id, gpu_model) do update set free = node_room.free + 1;
    end if;
    return null;
end
$$;

create or replace trigger slot_changes_room after insert or delete or update of state, fault, gpu on slot
    for each row execute function slot_changes_room();

-- What is there already. The trigger's lock keeps everybody else out until this is committed.
insert into node_room (node_id, gpu_model, free)
select node_id, lower(coalesce(gpu ->> 'model', '')), count(*) from slot where state = 'free' and fault is null group by 1, 2
on conflict (node_id, gpu_model) do update set free = excluded.free;

grant select on node_room to gpuaas_app;
