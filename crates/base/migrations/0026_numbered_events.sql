-- An event is looked for by its number once it has one, and before that in one way only.
create unique index if not exists outbox_by_seq on outbox (seq) where seq is not null;
create index if not exists outbox_of_subject on outbox (subject_kind, subject_id, seq) where seq is not null;
create index if not exists outbox_of_project on outbox (project_id, seq) where project_id is not null and seq is not null;
