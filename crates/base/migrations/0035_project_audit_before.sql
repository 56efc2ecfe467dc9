-- What was written before the audit knew whose a row is. It locks no more than these rows, which nobody else changes, so the
-- fleet goes on meanwhile. The seal does not cover whose a row is, and nothing that it covers is touched.
update audit set project_id = known.project_id
from (select id, project_of(target_kind, target_id) as project_id from audit
      where target_kind in ('project', 'allocation', 'token') and project_id is null offset 0) as known
where audit.id = known.id and known.project_id is not null;
