-- How far the phase is that a task is in, where its node can tell. Goes with the phase.
alter table task
    add column if not exists done_bytes bigint,
    add column if not exists of_bytes bigint;
