-- Whom an event concerns: derived from the row itself, so that no writer can forget it, or say otherwise than the data.
alter table outbox add column if not exists project_id text generated always as
    (case when subject_kind = 'project' then subject_id else data ->> 'project_id' end) stored;
-- The version of its subject after the change, where the writer knows it.
alter table outbox add column if not exists subject_version bigint;
-- Whoever takes a member out says which seat they mean: it may have become another one meanwhile.
alter table project_member add column if not exists version bigint not null default 1;
grant update (version) on project_member to gpuaas_app;
create index if not exists outbox_by_project on outbox (project_id, seq) where project_id is not null;
