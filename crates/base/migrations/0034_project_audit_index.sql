-- Before the rows that were there get their project: there is next to nothing to sort yet.
create index if not exists audit_of_project on audit (project_id, at desc, id desc) where project_id is not null;
