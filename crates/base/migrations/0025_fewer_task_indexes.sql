-- The one of all that is open serves for these; and the tasks of an operation, which are few, are found by what keeps them
-- apart.
drop index if exists task_open_op;
drop index if exists task_out;
