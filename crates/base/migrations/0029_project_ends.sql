-- A project that has ended: nobody has a seat in it any more, and its name is free. What happened in it stays.
alter table project add column if not exists deleted_at timestamptz;
alter table project drop constraint if exists project_name_key;
create unique index if not exists project_by_name on project (name) where deleted_at is null;

-- The seats that count: in projects that are there. Whoever wants to know who may what in a project asks here.
create or replace view project_seat as
    select m.project_id, m.user_id, m.role from project_member m join project p on p.id = m.project_id
    where p.deleted_at is null;

-- It ends once, and not while it has anything. Its quota is locked, as by all who add to it.
create or replace function project_ends() returns trigger language plpgsql as $$
declare
    held int;
begin
    if old.deleted_at is not null then
        raise exception 'a project that has ended stays so' using errcode = '23514', constraint = 'project_ends_once';
    end if;
    select slots_used + allocations_used into held from quota where project_id = new.id for update;
    if held > 0 then
        raise exception 'the project still has something' using errcode = '23514', constraint = 'project_ends_empty';
    end if;
    return new;
end
$$;
create or replace trigger project_ends before update of deleted_at on project
    for each row execute function project_ends();

grant select on project_seat to gpuaas_app;
grant update (deleted_at, version) on project to gpuaas_app;
