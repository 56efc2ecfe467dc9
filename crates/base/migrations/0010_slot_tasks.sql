-- Old probes are deleted by the thousand, and each time it is asked whether dirt names them.
create index if not exists slot_dirt_by_task on slot_dirt (task_id);
