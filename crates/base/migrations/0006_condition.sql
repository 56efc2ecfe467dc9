-- What the heartbeats of a node say of its executor: disk, results that nobody acknowledged, and why it takes no task.
alter table node add column if not exists condition jsonb;
alter table node add column if not exists condition_at timestamptz;
alter table node add column if not exists trouble text;
alter table node add column if not exists trouble_since timestamptz;
