-- With ten thousand nodes a look at all of them twice a second is too much: those who have to prove themselves, and
-- those whose proof has grown old, are found by these. What changes with every sign of life is in neither.
create index if not exists node_unproved on node (probe_asked_at nulls first, id) where state in ('enrolling', 'stale');
create index if not exists node_by_proof on node ((coalesce(last_probe_at, created_at)))
    where state in ('ready', 'draining', 'drained');
