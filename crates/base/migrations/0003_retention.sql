-- Tasks that only looked are forgotten some days after their end; this finds them without a scan.
create index if not exists task_looked on task (ended_at) where intent_sha256 is null and ended_at is not null;
grant delete on task to gpuaas_app;
