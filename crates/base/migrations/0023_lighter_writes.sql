-- Every index that is not there is one that a write need not touch. A node's row changes with every task, and nothing that
-- a task changes is in an index any more: the server then writes the row alone, in its own page, where there is room.
drop index if exists node_unproved;
drop index if exists node_by_proof;
alter table node set (fillfactor = 70);

-- An operation has few tasks, and they are found by the one that keeps them apart.
drop index if exists task_open_op;

-- An event without a number is looked for in one way only.
do $$
begin
    if exists (select from pg_constraint where conname = 'outbox_seq_key' and conrelid = 'outbox'::regclass) then
        alter table outbox drop constraint outbox_seq_key;
        drop index if exists outbox_by_subject, outbox_by_project;
    end if;
end
$$;
create unique index if not exists outbox_seq_key on outbox (seq) where seq is not null;
create index if not exists outbox_by_subject on outbox (subject_kind, subject_id, seq) where seq is not null;
create index if not exists outbox_by_project on outbox (project_id, seq) where project_id is not null and seq is not null;
