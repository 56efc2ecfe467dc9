-- Whatever is open, whoever looks for it: by node, by key, or all of it. There is little of it at any time.
create index if not exists task_open on task (node_id) where state in ('queued', 'dispatched', 'started', 'unknown');
