-- The audit of one project, for its owners. Whose a row is follows from its target and is found by the database itself, so
-- that no writer can forget it, or say otherwise. What is not about a project, its allocations or its tokens is nobody's here.
alter table audit add column if not exists project_id uuid;
do $$
begin
    if not exists (select from pg_constraint where conname = 'audit_project_id_check') then
        alter table audit add constraint audit_project_id_check
            check (project_id is null or target_kind in ('project', 'allocation', 'token')) not valid;
    end if;
end
$$;

create or replace function project_of(target_kind text, target_id text) returns uuid language plpgsql stable as $$
declare
    bits text;
    key uuid;
begin
    -- An id is its 128 bits, five in each letter and two left over. Other text is from outside, and of nothing that exists.
    if target_id !~ '^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$' then
        return null;
    end if;
    select string_agg((strpos('0123456789abcdefghjkmnpqrstvwxyz', letter) - 1)::bit(5)::text, '' order by place) into bits
    from regexp_split_to_table(right(target_id, 26), '') with ordinality as letters (letter, place);
    key := (lpad(to_hex(left(bits, 64)::bit(64)::bigint), 16, '0')
        || lpad(to_hex(substr(bits, 65, 64)::bit(64)::bigint), 16, '0'))::uuid;
    return case target_kind
        when 'project' then key
        when 'allocation' then (select project_id from allocation where id = key)
        when 'token' then (select project_id from api_token where id = key)
    end;
end
$$;

create or replace function audit_of_project() returns trigger language plpgsql as $$
begin
    new.project_id := project_of(new.target_kind, new.target_id);
    return new;
end
$$;
create or replace trigger audit_of_project before insert on audit
    for each row when (new.target_kind in ('project', 'allocation', 'token')) execute function audit_of_project();
