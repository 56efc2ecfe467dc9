-- When somebody last wanted it tried again: what is late by then has its time once more.
alter table allocation add column if not exists retried_at timestamptz;
