alter table outbox drop constraint if exists outbox_seq_key;
drop index if exists outbox_by_subject, outbox_by_project;
