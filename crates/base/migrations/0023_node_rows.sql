-- Every index that is not there is one that a write need not touch. A node's row changes with every task, and nothing that
-- a task changes is in an index any more: the server then writes the row alone, in its own page, where there is room.
-- One table in each of these migrations, and what only adds apart from what takes away: whoever is at work meanwhile may
-- hold two tables in another order, or read one and be about to write it.
drop index if exists node_unproved;
drop index if exists node_by_proof;
alter table node set (fillfactor = 70);
