-- Since when a task is in its phase, so that it is seen when that takes too long. Goes with the phase.
alter table task add column if not exists phase_since timestamptz;
