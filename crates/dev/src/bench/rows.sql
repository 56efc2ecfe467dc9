-- What a round trip leaves in the database, written by nobody in particular: the rows of a task that is asked for, handed
-- out and landed, with their events and audit rows, in three statements of one transaction each. Nothing is checked,
-- nothing is signed, nothing is looked up that the rows do not need, and nobody numbers the events or seals the audit.
with node_of as (select id from node order by id offset :client_id limit 1),
     counted as (
         update node set op_counter = op_counter + 1, task_seq = task_seq + 1, probe_asked_at = now()
         from node_of where node.id = node_of.id returning node.id, epoch, task_seq),
     made as (
         insert into task (id, op_id, issue, node_id, node_epoch, seq, task_type, type_version, keyid, envelope,
                           payload_sha256, state, actor_ref, correlation_id, created_at, start_by)
         select gen_random_uuid(), gen_random_uuid(), 0, id, epoch, task_seq, 'diag.health_probe', 1, '0123456789abcdef',
                convert_to(repeat('e', 1300), 'UTF8'), sha256('e'), 'queued', 'user/bench', gen_random_uuid(), now(),
                now() + interval '10 minutes'
         from counted returning id, node_id, correlation_id),
     told as (
         insert into outbox (id, kind, subject_kind, subject_id, data, correlation_id, created_at)
         select gen_random_uuid(), 'task.queued', 'task', id::text,
                jsonb_build_object('node_id', node_id, 'type', 'diag.health_probe'), correlation_id, now()
         from made),
     noted as (
         insert into audit (id, at, actor_kind, actor_id, address, action, target_kind, target_id, outcome, correlation_id,
                            details_text)
         select gen_random_uuid(), now(), 'user', 'bench', '127.0.0.1', action, 'task', id::text, 'ok', correlation_id,
                '{"node": "node_0123456789", "type": "diag.health_probe", "keyid": "0123456789abcdef"}'
         from made cross join (values ('node.probe'), ('task.enqueue')) as act (action))
select id as task from made \gset
update task set state = 'dispatched', fence = nextval('task_fence'), lease_until = now() + interval '1 minute',
    dispatched_at = now(), delivered_at = now(), version = version + 1
where id = :task::uuid and state = 'queued' returning fence, envelope;
with landed as (
         update task set state = 'succeeded', started_at = now(), ended_at = now(), output = '{"gpus": []}',
             result = convert_to(repeat('r', 1300), 'UTF8'), version = version + 1
         where id = :task::uuid and state = 'dispatched' returning id, node_id, correlation_id),
     proved as (
         update node set last_probe = '{"gpus": []}', last_probe_at = now(), version = version + 1
         from landed where node.id = landed.node_id),
     told as (
         insert into outbox (id, kind, subject_kind, subject_id, data, correlation_id, created_at)
         select gen_random_uuid(), kind, 'task', id::text, jsonb_build_object('node_id', node_id), correlation_id, now()
         from landed cross join (values ('task.started'), ('task.ended')) as event (kind))
insert into audit (id, at, actor_kind, actor_id, address, action, target_kind, target_id, outcome, correlation_id,
                   details_text)
select gen_random_uuid(), now(), 'node', 'bench', '127.0.0.1', action, 'task', id::text, 'ok', correlation_id,
       '{"type": "diag.health_probe", "outcome": "succeeded"}'
from landed cross join (values ('task.start'), ('task.result')) as act (action);
