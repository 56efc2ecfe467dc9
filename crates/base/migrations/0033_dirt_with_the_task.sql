-- From the moment a node is given the task that makes a VM, its slots may have something of a tenant on them. That is
-- written by whatever statement gives the task out, and costs nothing where there are no slots.
create or replace function task_dirties() returns trigger language plpgsql as $$
begin
    insert into slot_dirt (slot_id, op_id, task_id, since)
        select slot, new.op_id, new.id, new.delivered_at from unnest(new.slots) as slot
        on conflict (slot_id) where ended_by is null do nothing;
    update slot set state = 'leased', state_since = new.delivered_at, dirty_op = new.op_id, version = version + 1,
            state_reason = 'its node has the task that makes the VM'
        where id = any (new.slots) and state = 'reserved';
    return null;
end
$$;
create or replace trigger task_dirties after update of state on task for each row
    when (new.state = 'dispatched' and old.state = 'queued' and new.slots is not null and new.task_type = 'slice.vm_provision')
    execute function task_dirties();
