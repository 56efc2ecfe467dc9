-- Every row that was there fits, too.
alter table audit validate constraint audit_project_id_check;
