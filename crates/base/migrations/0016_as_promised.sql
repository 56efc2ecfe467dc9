-- What was last asked of a slice's VM, beside what its node has signed: `power` is never a hope.
alter table allocation add column if not exists power_wanted text check (power_wanted in ('running', 'off'));
update allocation set power_wanted = power where power_task is not null and power_wanted is null;
create index if not exists allocation_switching on allocation (power_task) where power_task is not null;

-- A SKU names images of the signed catalogue; what they are is looked up there when something is rented.
update sku set images = (select coalesce(jsonb_agg(one ->> 'file'), '[]') from jsonb_array_elements(images) one)
where jsonb_typeof(images -> 0) = 'object';

-- Whether a slot has what one slot of a SKU promises. Null: any GPU.
create or replace function slot_fits(s slot, gpu_model text, vcpu bigint, memory_mib bigint, nvme_gib bigint, fabric boolean)
returns boolean language sql stable as $$
    select (gpu_model is null or lower(s.gpu ->> 'model') = lower(gpu_model))
       and s.vcpu_count >= vcpu and s.memory_mib >= memory_mib
       and s.nvme_size_bytes >= nvme_gib * 1073741824 and (not fabric or s.fabric_device is not null)
$$;

-- A slot is an allocation's for as long as its lease: it may be free, and another's, a moment before the end of the
-- allocation is written.
create or replace function allocation_slot_ends() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
begin
    update allocation_slot set ended_at = new.ended_at
    where allocation_id = new.allocation_id and slot_id = new.slot_id and ended_at is null;
    return null;
end
$$;
create or replace trigger allocation_slot_ends after update on lease
    for each row when (new.ended_at is not null and old.ended_at is null and new.slot_id is not null)
    execute function allocation_slot_ends();

-- Lists in their order, for whoever looks at all projects.
create index if not exists allocation_by_state on allocation (state, created_at desc, id desc);
create index if not exists allocation_live on allocation (created_at desc, id desc) where ended_at is null;
create index if not exists node_by_state on node (state, created_at desc, id desc);
