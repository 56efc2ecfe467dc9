-- A quarantined slot whose disk is gone for good: it stays in quarantine, and its disk is never given to anybody, but its
-- other devices may be part of a new slot.
alter table slot add column if not exists disk_gone_at timestamptz;
do $$
begin
    if not exists (select from pg_constraint where conname = 'slot_disk_gone') then
        alter table slot add constraint slot_disk_gone check (disk_gone_at is null or state = 'quarantined');
    end if;
end
$$;
drop index if exists slot_index_once;
create unique index if not exists slot_index_once on slot (node_id, slot_index)
    where state not in ('candidate', 'rejected', 'retired') and disk_gone_at is null;
drop index if exists slot_gpu_once;
create unique index if not exists slot_gpu_once on slot (node_id, pci_address)
    where state not in ('candidate', 'rejected', 'retired') and disk_gone_at is null;
drop index if exists slot_fabric_once;
create unique index if not exists slot_fabric_once on slot (node_id, fabric_device)
    where state not in ('candidate', 'rejected', 'retired') and fabric_device is not null and disk_gone_at is null;

grant update (disk_gone_at) on slot to gpuaas_app;
