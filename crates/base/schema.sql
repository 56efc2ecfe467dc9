extension btree_gist
function allocation_moved() a25d55018f0d9034273e196d7730f679
function allocation_moves() 79fc9d86357ee8fb88206e781dd8bedf
function allocation_slot_ends() 1aea5d0bfbb7cf8ace25063c40d5291f
function allocation_slot_is_leased() a28a5ac9ec1357dae9f681455ff2d802
function audit_of_project() 1925e323d5580df668938cdb8d93e60f
function machine_dirt_ends_once() 229002f2c592288dff9eb3708fbdc5e6
function machine_fits(node,text,integer) a46bf2e03b550c441ada0521f2988bac
function machine_is_clean() a3e6483cad5f93505615d6ef3874eba0
function machine_is_cleaned_by_proof() d3df8b961f719d284c660f2ab6e8dc5c
function project_ends() 603d7ea3f5287f412fe9bd97faee50db
function project_keeps_owner() 975c29ad7aaa4a7ff325997376949653
function project_of(text,text) 9d9233f81f220cbd5043b8b3fb553dc2
function slot_changes_room() d5f0e32874d82071bff2c4f3d37d7b1b
function slot_fits(slot,text,bigint,bigint,bigint,boolean) 01f2650167c122d51e2a60f4474d6fd7
function slot_to_be_had(slot) 142a38e26145b7ceac6dd569dd8fc79f
function task_dirties() 08805d0a41fe1bc70a510238f6ab9633
function usage_lost(uuid,timestamp with time zone,text) fb65d5b98bd6dbf442d3042b73b6195e
function usage_proven(uuid,timestamp with time zone,text) 3f542043038de9450e1cd07da948e5dc
grant delete, insert, select on browser_session to gpuaas_app
grant delete, insert, select on idempotency to gpuaas_app
grant delete, insert, select on outbox to gpuaas_app
grant delete, insert, select on project_member to gpuaas_app
grant delete, insert, select on renewal_token to gpuaas_app
grant delete, insert, select on slot to gpuaas_app
grant delete, insert, select on ssh_key to gpuaas_app
grant delete, insert, select on trust_rotation to gpuaas_app
grant delete, insert, select, update on guest_telemetry to gpuaas_app
grant delete, insert, select, update on node_session to gpuaas_app
grant delete, insert, select, update on task to gpuaas_app
grant insert (allocation_id, since, slot_id) on allocation_slot to gpuaas_app
grant insert (clean, created_at, disk_serial, disk_size_bytes, disk_wwn, kind, op_id, proof, slot_id, subject, task_id) on slot_proof to gpuaas_app
grant insert (code, reason, since, slot_id) on slot_quarantine to gpuaas_app
grant insert (op_id, since, slot_id, task_id) on slot_dirt to gpuaas_app
grant insert (project_id) on quota to gpuaas_app
grant insert, select on app_user to gpuaas_app
grant insert, select on audit to gpuaas_app
grant insert, select on audit_seal to gpuaas_sealer
grant insert, select on image_catalogue to gpuaas_app
grant insert, select on installation to gpuaas_app
grant insert, select on intent to gpuaas_app
grant insert, select on lease to gpuaas_app
grant insert, select on machine_dirt to gpuaas_app
grant insert, select on project to gpuaas_app
grant insert, select on sku to gpuaas_app
grant insert, select on sku_version to gpuaas_app
grant insert, select on trust_bundle to gpuaas_app
grant insert, select on user_identity to gpuaas_app
grant insert, select on workflow_step to gpuaas_app
grant insert, select, update on allocation to gpuaas_app
grant insert, select, update on api_token to gpuaas_app
grant insert, select, update on audit_head to gpuaas_sealer
grant insert, select, update on certificate to gpuaas_app
grant insert, select, update on enrolment to gpuaas_app
grant insert, select, update on node to gpuaas_app
grant insert, select, update on node_held to gpuaas_app
grant insert, select, update on node_topology to gpuaas_app
grant insert, select, update on workflow to gpuaas_app
grant select on allocation_slot to gpuaas_app
grant select on allocation_transition to gpuaas_app
grant select on audit to gpuaas_sealer
grant select on audit_head to gpuaas_app
grant select on audit_seal to gpuaas_app
grant select on node_room to gpuaas_app
grant select on project_seat to gpuaas_app
grant select on quota to gpuaas_app
grant select on schema_migration to gpuaas_app
grant select on slot_dirt to gpuaas_app
grant select on slot_proof to gpuaas_app
grant select on slot_quarantine to gpuaas_app
grant select on usage_span to gpuaas_app
grant update (allocations, max_ttl_hours, slots, slots_per_sku, spend_per_day_micro, terminals, version) on quota to gpuaas_app
grant update (approved_at, approved_by, baseline, blockers, dirty_op, disk_gone_at, fault, fault_detail, fault_since, gpu, lease_id, mac_address, memory_mib, numa_node, nvme_device, private_ip, quarantine_no, seen_at, slot_index, state, state_reason, state_since, vcpu_count, version, warnings) on slot to gpuaas_app
grant update (cleaned_at, cleaned_by) on machine_dirt to gpuaas_app
grant update (deleted_at, version) on project to gpuaas_app
grant update (disabled_at, platform_roles, version) on app_user to gpuaas_app
grant update (email, judged_at) on user_identity to gpuaas_app
grant update (end_reason, ended_at) on lease to gpuaas_app
grant update (ended_at, ended_by) on slot_quarantine to gpuaas_app
grant update (ended_at, ended_by, ended_kind, ended_op) on slot_dirt to gpuaas_app
grant update (ended_at, last_used_at) on browser_session to gpuaas_app
grant update (images, version, visible) on sku to gpuaas_app
grant update (proven_until) on usage_span to gpuaas_app
grant update (published_at, seq) on outbox to gpuaas_app
grant update (role, since, version) on project_member to gpuaas_app
grant update (withdrawn_at) on intent to gpuaas_app
grant usage on sequence slot_no to gpuaas_app
grant usage on sequence task_fence to gpuaas_app
sequence image_catalogue_no_seq owner gpuaas_owner
sequence outbox_drawn_seq owner gpuaas_owner
sequence slot_no owner gpuaas_owner
sequence task_fence owner gpuaas_owner
table allocation column cancel_asked_at timestamp with time zone
table allocation column code text
table allocation column correlation_id uuid not null
table allocation column created_at timestamp with time zone not null
table allocation column creator_id uuid not null
table allocation column currency text not null
table allocation column deadline_at timestamp with time zone
table allocation column default_username text
table allocation column detail text
table allocation column ended_at timestamp with time zone
table allocation column ends_at timestamp with time zone
table allocation column forced boolean not null default false
table allocation column generation integer not null default 1
table allocation column id uuid not null
table allocation column intent_sha256 bytea not null
table allocation column kind text not null
table allocation column name text
table allocation column node_id uuid not null
table allocation column power text
table allocation column power_task uuid
table allocation column power_wanted text
table allocation column private_ip text
table allocation column project_id uuid not null
table allocation column rate_micro_per_hour bigint not null
table allocation column request jsonb not null
table allocation column retried_at timestamp with time zone
table allocation column sku_id uuid not null
table allocation column sku_version integer not null
table allocation column slots integer not null
table allocation column state text not null
table allocation column state_by text not null
table allocation column state_reason text not null
table allocation column state_since timestamp with time zone not null
table allocation column stuck_at text
table allocation column stuck_code text
table allocation column stuck_since timestamp with time zone
table allocation column version bigint not null default 1
table allocation column waiting_code text
table allocation column waiting_since timestamp with time zone
table allocation constraint allocation_creator_id_fkey FOREIGN KEY (creator_id) REFERENCES app_user(id)
table allocation constraint allocation_deadline CHECK (((state <> ALL (ARRAY['requested'::text, 'provisioning'::text, 'unwinding'::text, 'releasing'::text])) OR (deadline_at IS NOT NULL)))
table allocation constraint allocation_ended CHECK (((state = ANY (ARRAY['released'::text, 'failed'::text, 'cancelled'::text])) = (ended_at IS NOT NULL)))
table allocation constraint allocation_generation_check CHECK ((generation > 0))
table allocation constraint allocation_kind_check CHECK ((kind = ANY (ARRAY['slice'::text, 'machine'::text])))
table allocation constraint allocation_name_check CHECK (((length(name) >= 1) AND (length(name) <= 64)))
table allocation constraint allocation_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table allocation constraint allocation_pkey PRIMARY KEY (id)
table allocation constraint allocation_power_check CHECK ((power = ANY (ARRAY['running'::text, 'off'::text])))
table allocation constraint allocation_power_wanted_check CHECK ((power_wanted = ANY (ARRAY['running'::text, 'off'::text])))
table allocation constraint allocation_project_id_fkey FOREIGN KEY (project_id) REFERENCES quota(project_id)
table allocation constraint allocation_rate_micro_per_hour_check CHECK (((rate_micro_per_hour >= 0) AND (rate_micro_per_hour < '9007199254740992'::bigint)))
table allocation constraint allocation_sku_id_sku_version_fkey FOREIGN KEY (sku_id, sku_version) REFERENCES sku_version(sku_id, version)
table allocation constraint allocation_slots_check CHECK (((slots >= 0) AND (slots <= 16)))
table allocation constraint allocation_state CHECK ((state = ANY (ARRAY['requested'::text, 'provisioning'::text, 'unwinding'::text, 'active'::text, 'releasing'::text, 'released'::text, 'failed'::text, 'cancelled'::text])))
table allocation constraint allocation_stuck CHECK ((num_nonnulls(stuck_since, stuck_code, stuck_at) = ANY (ARRAY[0, 3])))
table allocation index CREATE INDEX allocation_by_project ON public.allocation USING btree (project_id, created_at DESC, id DESC)
table allocation index CREATE INDEX allocation_by_state ON public.allocation USING btree (state, created_at DESC, id DESC)
table allocation index CREATE INDEX allocation_by_time ON public.allocation USING btree (created_at DESC, id DESC)
table allocation index CREATE INDEX allocation_expiring ON public.allocation USING btree (ends_at) WHERE ((state = 'active'::text) AND (ends_at IS NOT NULL))
table allocation index CREATE INDEX allocation_live ON public.allocation USING btree (created_at DESC, id DESC) WHERE (ended_at IS NULL)
table allocation index CREATE INDEX allocation_live_sku ON public.allocation USING btree (project_id, sku_id) WHERE (ended_at IS NULL)
table allocation index CREATE INDEX allocation_overdue ON public.allocation USING btree (deadline_at) WHERE ((ended_at IS NULL) AND (deadline_at IS NOT NULL))
table allocation index CREATE INDEX allocation_switching ON public.allocation USING btree (power_task) WHERE (power_task IS NOT NULL)
table allocation index CREATE UNIQUE INDEX allocation_pkey ON public.allocation USING btree (id)
table allocation owner gpuaas_owner
table allocation_slot column allocation_id uuid not null
table allocation_slot column ended_at timestamp with time zone
table allocation_slot column since timestamp with time zone not null
table allocation_slot column slot_id uuid not null
table allocation_slot constraint allocation_slot_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES allocation(id)
table allocation_slot constraint allocation_slot_pkey PRIMARY KEY (allocation_id, slot_id)
table allocation_slot constraint allocation_slot_slot_id_fkey FOREIGN KEY (slot_id) REFERENCES slot(id)
table allocation_slot index CREATE UNIQUE INDEX allocation_slot_once ON public.allocation_slot USING btree (slot_id) WHERE (ended_at IS NULL)
table allocation_slot index CREATE UNIQUE INDEX allocation_slot_pkey ON public.allocation_slot USING btree (allocation_id, slot_id)
table allocation_slot owner gpuaas_owner
table allocation_transition column actor text not null
table allocation_transition column allocation_id uuid not null
table allocation_transition column at timestamp with time zone not null
table allocation_transition column code text
table allocation_transition column correlation_id uuid not null
table allocation_transition column from_state text
table allocation_transition column reason text not null
table allocation_transition column to_state text not null
table allocation_transition column version bigint not null
table allocation_transition constraint allocation_transition_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES allocation(id)
table allocation_transition constraint allocation_transition_pkey PRIMARY KEY (allocation_id, version)
table allocation_transition index CREATE UNIQUE INDEX allocation_transition_pkey ON public.allocation_transition USING btree (allocation_id, version)
table allocation_transition owner gpuaas_owner
table api_token column created_at timestamp with time zone not null
table api_token column expires_at timestamp with time zone not null
table api_token column id uuid not null
table api_token column last_used_at timestamp with time zone
table api_token column name text not null
table api_token column project_id uuid
table api_token column project_role text
table api_token column revoked_at timestamp with time zone
table api_token column scopes text[] not null
table api_token column sha256 bytea not null
table api_token column user_id uuid not null
table api_token constraint api_token_name_check CHECK (((length(name) >= 1) AND (length(name) <= 128)))
table api_token constraint api_token_pkey PRIMARY KEY (id)
table api_token constraint api_token_project CHECK ((((project_id IS NULL) AND (project_role IS NULL)) OR ((project_id IS NOT NULL) AND (project_role = ANY (ARRAY['viewer'::text, 'member'::text, 'admin'::text, 'owner'::text])) AND (scopes = '{project}'::text[]))))
table api_token constraint api_token_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id)
table api_token constraint api_token_sha256_check CHECK ((length(sha256) = 32))
table api_token constraint api_token_sha256_key UNIQUE (sha256)
table api_token constraint api_token_user_id_fkey FOREIGN KEY (user_id) REFERENCES app_user(id)
table api_token index CREATE INDEX api_token_by_project ON public.api_token USING btree (project_id, created_at) WHERE (project_id IS NOT NULL)
table api_token index CREATE INDEX api_token_by_user ON public.api_token USING btree (user_id, created_at)
table api_token index CREATE UNIQUE INDEX api_token_pkey ON public.api_token USING btree (id)
table api_token index CREATE UNIQUE INDEX api_token_sha256_key ON public.api_token USING btree (sha256)
table api_token owner gpuaas_owner
table app_user column created_at timestamp with time zone not null
table app_user column disabled_at timestamp with time zone
table app_user column id uuid not null
table app_user column name text not null
table app_user column platform_roles text[] not null default '{}'::text[]
table app_user column version bigint not null default 1
table app_user constraint app_user_name_check CHECK (((length(name) >= 1) AND (length(name) <= 128)))
table app_user constraint app_user_name_key UNIQUE (name)
table app_user constraint app_user_pkey PRIMARY KEY (id)
table app_user index CREATE INDEX app_user_by_plain_name ON public.app_user USING btree (lower(name))
table app_user index CREATE UNIQUE INDEX app_user_name_key ON public.app_user USING btree (name)
table app_user index CREATE UNIQUE INDEX app_user_pkey ON public.app_user USING btree (id)
table app_user owner gpuaas_owner
table audit column action text not null
table audit column actor_id text not null
table audit column actor_kind text not null
table audit column address text
table audit column at timestamp with time zone not null
table audit column code text
table audit column correlation_id uuid not null
table audit column details jsonb generated (details_text)::jsonb
table audit column details_text text not null default '{}'::text
table audit column id uuid not null
table audit column outcome text not null
table audit column project_id uuid
table audit column target_id text not null
table audit column target_kind text not null
table audit constraint audit_actor_kind_check CHECK ((actor_kind = ANY (ARRAY['user'::text, 'token'::text, 'node'::text, 'system'::text, 'role'::text])))
table audit constraint audit_outcome_check CHECK ((outcome = ANY (ARRAY['ok'::text, 'refused'::text, 'failed'::text])))
table audit constraint audit_pkey PRIMARY KEY (id)
table audit constraint audit_project_id_check CHECK (((project_id IS NULL) OR (target_kind = ANY (ARRAY['project'::text, 'allocation'::text, 'token'::text]))))
table audit index CREATE INDEX audit_by_actor ON public.audit USING btree (actor_id, at DESC)
table audit index CREATE INDEX audit_by_target ON public.audit USING btree (target_kind, target_id, at DESC)
table audit index CREATE INDEX audit_by_time ON public.audit USING btree (at DESC, id DESC)
table audit index CREATE INDEX audit_of_project ON public.audit USING btree (project_id, at DESC, id DESC) WHERE (project_id IS NOT NULL)
table audit index CREATE UNIQUE INDEX audit_pkey ON public.audit USING btree (id)
table audit owner gpuaas_owner
table audit_head column hash bytea not null
table audit_head column only_one boolean not null default true
table audit_head column pos bigint not null
table audit_head constraint audit_head_only_one_check CHECK (only_one)
table audit_head constraint audit_head_pkey PRIMARY KEY (only_one)
table audit_head index CREATE UNIQUE INDEX audit_head_pkey ON public.audit_head USING btree (only_one)
table audit_head owner gpuaas_owner
table audit_seal column audit_id uuid not null
table audit_seal column hash bytea not null
table audit_seal column pos bigint not null
table audit_seal constraint audit_seal_audit_id_fkey FOREIGN KEY (audit_id) REFERENCES audit(id)
table audit_seal constraint audit_seal_audit_id_key UNIQUE (audit_id)
table audit_seal constraint audit_seal_hash_check CHECK ((length(hash) = 32))
table audit_seal constraint audit_seal_pkey PRIMARY KEY (pos)
table audit_seal constraint audit_seal_pos_check CHECK ((pos > 0))
table audit_seal index CREATE UNIQUE INDEX audit_seal_audit_id_key ON public.audit_seal USING btree (audit_id)
table audit_seal index CREATE UNIQUE INDEX audit_seal_pkey ON public.audit_seal USING btree (pos)
table audit_seal owner gpuaas_owner
table browser_session column created_at timestamp with time zone not null
table browser_session column ended_at timestamp with time zone
table browser_session column ends_at timestamp with time zone not null
table browser_session column id uuid not null
table browser_session column last_used_at timestamp with time zone not null
table browser_session column sha256 bytea not null
table browser_session column user_id uuid not null
table browser_session constraint browser_session_pkey PRIMARY KEY (id)
table browser_session constraint browser_session_sha256_check CHECK ((length(sha256) = 32))
table browser_session constraint browser_session_sha256_key UNIQUE (sha256)
table browser_session constraint browser_session_user_id_fkey FOREIGN KEY (user_id) REFERENCES app_user(id)
table browser_session index CREATE INDEX browser_session_by_user ON public.browser_session USING btree (user_id, ends_at)
table browser_session index CREATE UNIQUE INDEX browser_session_pkey ON public.browser_session USING btree (id)
table browser_session index CREATE UNIQUE INDEX browser_session_sha256_key ON public.browser_session USING btree (sha256)
table browser_session owner gpuaas_owner
table certificate column created_at timestamp with time zone not null
table certificate column ends_at timestamp with time zone
table certificate column epoch bigint
table certificate column first_used_at timestamp with time zone
table certificate column generation bigint not null default 0
table certificate column kind text not null
table certificate column node_id uuid
table certificate column not_after timestamp with time zone not null
table certificate column not_before timestamp with time zone not null
table certificate column revoked_at timestamp with time zone
table certificate column revoked_why text
table certificate column role text
table certificate column serial text not null
table certificate constraint certificate_check CHECK (((kind = 'role'::text) = (node_id IS NULL)))
table certificate constraint certificate_check1 CHECK (((kind = 'role'::text) = (role IS NOT NULL)))
table certificate constraint certificate_kind_check CHECK ((kind = ANY (ARRAY['working'::text, 'device'::text, 'role'::text])))
table certificate constraint certificate_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table certificate constraint certificate_pkey PRIMARY KEY (serial)
table certificate index CREATE INDEX certificate_by_node ON public.certificate USING btree (node_id, created_at DESC)
table certificate index CREATE INDEX certificate_live ON public.certificate USING btree (not_after) WHERE ((revoked_at IS NULL) AND (kind <> 'device'::text))
table certificate index CREATE UNIQUE INDEX certificate_pkey ON public.certificate USING btree (serial)
table certificate owner gpuaas_owner
table enrolment column answer jsonb
table enrolment column board_serial text
table enrolment column created_at timestamp with time zone not null
table enrolment column expires_at timestamp with time zone not null
table enrolment column id uuid not null
table enrolment column node_id uuid not null
table enrolment column secret_sha256 bytea not null
table enrolment column used_at timestamp with time zone
table enrolment column used_by bytea
table enrolment constraint enrolment_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table enrolment constraint enrolment_pkey PRIMARY KEY (id)
table enrolment constraint enrolment_secret_sha256_check CHECK ((length(secret_sha256) = 32))
table enrolment constraint enrolment_secret_sha256_key UNIQUE (secret_sha256)
table enrolment index CREATE INDEX enrolment_by_node ON public.enrolment USING btree (node_id)
table enrolment index CREATE UNIQUE INDEX enrolment_pkey ON public.enrolment USING btree (id)
table enrolment index CREATE UNIQUE INDEX enrolment_secret_sha256_key ON public.enrolment USING btree (secret_sha256)
table enrolment owner gpuaas_owner
table guest_telemetry column allocation_id uuid not null
table guest_telemetry column at timestamp with time zone not null
table guest_telemetry column node_id uuid not null
table guest_telemetry column numbers jsonb not null
table guest_telemetry constraint guest_telemetry_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table guest_telemetry constraint guest_telemetry_pkey PRIMARY KEY (allocation_id)
table guest_telemetry index CREATE UNIQUE INDEX guest_telemetry_pkey ON public.guest_telemetry USING btree (allocation_id)
table guest_telemetry owner gpuaas_owner
table idempotency column answer jsonb not null
table idempotency column body_sha256 bytea not null
table idempotency column created_at timestamp with time zone not null
table idempotency column key text not null
table idempotency column route text not null
table idempotency column status integer not null
table idempotency column user_id uuid not null
table idempotency constraint idempotency_body_sha256_check CHECK ((length(body_sha256) = 32))
table idempotency constraint idempotency_key_check CHECK ((key ~ '^[A-Za-z0-9_-]{1,64}$'::text))
table idempotency constraint idempotency_pkey PRIMARY KEY (user_id, route, key)
table idempotency index CREATE INDEX idempotency_by_time ON public.idempotency USING btree (created_at)
table idempotency index CREATE UNIQUE INDEX idempotency_pkey ON public.idempotency USING btree (user_id, route, key)
table idempotency owner gpuaas_owner
table image_catalogue column created_at timestamp with time zone not null
table image_catalogue column document bytea not null
table image_catalogue column no bigint not null
table image_catalogue column version bigint not null
table image_catalogue constraint image_catalogue_document_check CHECK ((octet_length(document) <= 262144))
table image_catalogue constraint image_catalogue_pkey PRIMARY KEY (no)
table image_catalogue index CREATE INDEX image_catalogue_by_version ON public.image_catalogue USING btree (version, no)
table image_catalogue index CREATE UNIQUE INDEX image_catalogue_pkey ON public.image_catalogue USING btree (no)
table image_catalogue owner gpuaas_owner
table installation column created_at timestamp with time zone not null
table installation column cursor_key bytea not null
table installation column id uuid not null
table installation column only_one boolean not null default true
table installation constraint installation_cursor_key_check CHECK ((length(cursor_key) = 32))
table installation constraint installation_only_one_check CHECK (only_one)
table installation constraint installation_pkey PRIMARY KEY (only_one)
table installation index CREATE UNIQUE INDEX installation_pkey ON public.installation USING btree (only_one)
table installation owner gpuaas_owner
table intent column allocation_id uuid not null
table intent column created_at timestamp with time zone not null
table intent column envelope bytea not null
table intent column generation integer not null
table intent column id uuid not null
table intent column sha256 bytea not null
table intent column wish bytea not null
table intent column withdrawn_at timestamp with time zone
table intent constraint intent_id_key UNIQUE (id)
table intent constraint intent_pkey PRIMARY KEY (sha256)
table intent constraint intent_sha256_check CHECK ((length(sha256) = 32))
table intent index CREATE UNIQUE INDEX intent_by_allocation ON public.intent USING btree (allocation_id, generation)
table intent index CREATE UNIQUE INDEX intent_id_key ON public.intent USING btree (id)
table intent index CREATE UNIQUE INDEX intent_pkey ON public.intent USING btree (sha256)
table intent owner gpuaas_owner
table lease column allocation_id uuid not null
table lease column end_reason text
table lease column ended_at timestamp with time zone
table lease column id uuid not null
table lease column needs_mode text generated 
CASE
    WHEN (ended_at IS NOT NULL) THEN NULL::text
    WHEN (slot_id IS NULL) THEN 'machine'::text
    ELSE 'slice'::text
END
table lease column node_id uuid not null
table lease column open_id uuid generated 
CASE
    WHEN (ended_at IS NULL) THEN id
    ELSE NULL::uuid
END
table lease column since timestamp with time zone not null
table lease column slot_id uuid
table lease constraint lease_id_slot_id_key UNIQUE (id, slot_id)
table lease constraint lease_mode FOREIGN KEY (node_id, needs_mode) REFERENCES node(id, mode)
table lease constraint lease_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table lease constraint lease_pins_slot FOREIGN KEY (slot_id, open_id) REFERENCES slot(id, lease_id) DEFERRABLE INITIALLY DEFERRED
table lease constraint lease_pkey PRIMARY KEY (id)
table lease constraint lease_slot_id_node_id_fkey FOREIGN KEY (slot_id, node_id) REFERENCES slot(id, node_id)
table lease index CREATE INDEX lease_by_allocation ON public.lease USING btree (allocation_id)
table lease index CREATE UNIQUE INDEX lease_id_slot_id_key ON public.lease USING btree (id, slot_id)
table lease index CREATE UNIQUE INDEX lease_node_once ON public.lease USING btree (node_id) WHERE ((ended_at IS NULL) AND (slot_id IS NULL))
table lease index CREATE UNIQUE INDEX lease_pkey ON public.lease USING btree (id)
table lease index CREATE UNIQUE INDEX lease_slot_once ON public.lease USING btree (slot_id) WHERE ((ended_at IS NULL) AND (slot_id IS NOT NULL))
table lease owner gpuaas_owner
table machine_dirt column allocation_id uuid not null
table machine_dirt column cleaned_at timestamp with time zone
table machine_dirt column cleaned_by uuid
table machine_dirt column node_id uuid not null
table machine_dirt column op_id uuid not null
table machine_dirt column since timestamp with time zone not null
table machine_dirt constraint machine_dirt_cleaned_by_fkey FOREIGN KEY (cleaned_by) REFERENCES task(id)
table machine_dirt constraint machine_dirt_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table machine_dirt constraint machine_dirt_pkey PRIMARY KEY (op_id)
table machine_dirt constraint machine_is_cleaned_by_proof TRIGGER DEFERRABLE INITIALLY DEFERRED
table machine_dirt index CREATE INDEX machine_dirt_by_allocation ON public.machine_dirt USING btree (allocation_id)
table machine_dirt index CREATE INDEX machine_dirt_by_task ON public.machine_dirt USING btree (cleaned_by)
table machine_dirt index CREATE UNIQUE INDEX machine_dirt_open ON public.machine_dirt USING btree (node_id) WHERE (cleaned_at IS NULL)
table machine_dirt index CREATE UNIQUE INDEX machine_dirt_pkey ON public.machine_dirt USING btree (op_id)
table machine_dirt owner gpuaas_owner
table node column boot_id text
table node column condition jsonb
table node column condition_at timestamp with time zone
table node column created_at timestamp with time zone not null
table node column epoch bigint not null default 0
table node column facts jsonb not null default '{"hostname": "", "provider": null, "private_ip": null}'::jsonb
table node column hardware jsonb not null default '{"dmi_uuid": null, "board_serial": null, "tpm_ek_sha256": null}'::jsonb
table node column id uuid not null
table node column last_probe jsonb
table node column last_probe_at timestamp with time zone
table node column last_seen_at timestamp with time zone
table node column left_over_since timestamp with time zone
table node column manifest_version bigint
table node column mode text not null
table node column name text not null
table node column op_counter bigint not null default 0
table node column probe_asked_at timestamp with time zone
table node column probe_tries integer not null default 0
table node column quarantine_code text
table node column result_public bytea
table node column resume_state text
table node column return_asked_at timestamp with time zone
table node column self_probe jsonb
table node column self_probe_at timestamp with time zone
table node column session_heard_at timestamp with time zone
table node column session_id uuid
table node column session_since timestamp with time zone
table node column simulated boolean not null default false
table node column state text not null
table node column state_reason text
table node column state_since timestamp with time zone not null
table node column task_seq bigint not null default 0
table node column task_types jsonb not null default '[]'::jsonb
table node column topology_at timestamp with time zone
table node column trouble text
table node column trouble_since timestamp with time zone
table node column version bigint not null default 1
table node column versions jsonb
table node constraint node_mode_check CHECK ((mode = ANY (ARRAY['slice'::text, 'machine'::text])))
table node constraint node_name_check CHECK ((name ~ '^[a-z0-9][a-z0-9.-]{0,62}$'::text))
table node constraint node_pkey PRIMARY KEY (id)
table node constraint node_result_public_check CHECK ((length(result_public) = 32))
table node constraint node_resume_state_check CHECK ((resume_state = ANY (ARRAY['ready'::text, 'draining'::text, 'drained'::text])))
table node constraint node_state_check CHECK ((state = ANY (ARRAY['enrolling'::text, 'ready'::text, 'draining'::text, 'drained'::text, 'stale'::text, 'quarantined'::text, 'removed'::text])))
table node index CREATE INDEX node_by_state ON public.node USING btree (state, created_at DESC, id DESC)
table node index CREATE INDEX node_by_time ON public.node USING btree (created_at DESC, id DESC)
table node index CREATE INDEX node_machines ON public.node USING btree (id) WHERE ((mode = 'machine'::text) AND (state = 'ready'::text))
table node index CREATE UNIQUE INDEX node_by_mode ON public.node USING btree (id, mode)
table node index CREATE UNIQUE INDEX node_name ON public.node USING btree (name) WHERE (state <> 'removed'::text)
table node index CREATE UNIQUE INDEX node_pkey ON public.node USING btree (id)
table node owner gpuaas_owner
table node_held column at timestamp with time zone not null
table node_held column boot_id text not null
table node_held column differences jsonb not null default '[]'::jsonb
table node_held column envelope bytea not null
table node_held column epoch bigint not null
table node_held column holds jsonb not null
table node_held column node_id uuid not null
table node_held column number bigint not null
table node_held column received_at timestamp with time zone not null
table node_held constraint node_held_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table node_held constraint node_held_pkey PRIMARY KEY (node_id)
table node_held index CREATE UNIQUE INDEX node_held_pkey ON public.node_held USING btree (node_id)
table node_held owner gpuaas_owner
table node_room column free integer not null
table node_room column gpu_model text not null
table node_room column node_id uuid not null
table node_room constraint node_room_free_check CHECK ((free >= 0))
table node_room constraint node_room_pkey PRIMARY KEY (node_id, gpu_model)
table node_room index CREATE INDEX node_room_by_free ON public.node_room USING btree (gpu_model, free, node_id) WHERE (free > 0)
table node_room index CREATE UNIQUE INDEX node_room_pkey ON public.node_room USING btree (node_id, gpu_model)
table node_room owner gpuaas_owner
table node_session column id uuid not null
table node_session column node_id uuid not null
table node_session column opened_at timestamp with time zone not null
table node_session column told_at timestamp with time zone
table node_session constraint node_session_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table node_session constraint node_session_pkey PRIMARY KEY (node_id, id)
table node_session index CREATE INDEX node_session_by_time ON public.node_session USING btree (node_id, opened_at DESC)
table node_session index CREATE UNIQUE INDEX node_session_pkey ON public.node_session USING btree (node_id, id)
table node_session owner gpuaas_owner
table node_topology column discovered_at timestamp with time zone not null
table node_topology column found jsonb not null
table node_topology column node_id uuid not null
table node_topology constraint node_topology_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table node_topology constraint node_topology_pkey PRIMARY KEY (node_id)
table node_topology index CREATE UNIQUE INDEX node_topology_pkey ON public.node_topology USING btree (node_id)
table node_topology owner gpuaas_owner
table outbox column correlation_id uuid not null
table outbox column created_at timestamp with time zone not null
table outbox column data jsonb not null
table outbox column drawn bigint not null
table outbox column id uuid not null
table outbox column kind text not null
table outbox column project_id text generated 
CASE
    WHEN (subject_kind = 'project'::text) THEN subject_id
    ELSE (data ->> 'project_id'::text)
END
table outbox column published_at timestamp with time zone
table outbox column seq bigint
table outbox column subject_id text not null
table outbox column subject_kind text not null
table outbox column subject_version bigint
table outbox constraint outbox_pkey PRIMARY KEY (id)
table outbox index CREATE INDEX outbox_of_project ON public.outbox USING btree (project_id, seq) WHERE ((project_id IS NOT NULL) AND (seq IS NOT NULL))
table outbox index CREATE INDEX outbox_of_subject ON public.outbox USING btree (subject_kind, subject_id, seq) WHERE (seq IS NOT NULL)
table outbox index CREATE INDEX outbox_unstamped ON public.outbox USING btree (drawn) WHERE (seq IS NULL)
table outbox index CREATE UNIQUE INDEX outbox_by_seq ON public.outbox USING btree (seq) WHERE (seq IS NOT NULL)
table outbox index CREATE UNIQUE INDEX outbox_pkey ON public.outbox USING btree (id)
table outbox owner gpuaas_owner
table project column created_at timestamp with time zone not null
table project column deleted_at timestamp with time zone
table project column id uuid not null
table project column name text not null
table project column version bigint not null default 1
table project constraint project_name_check CHECK ((name ~ '^[a-z0-9][a-z0-9-]{0,62}$'::text))
table project constraint project_pkey PRIMARY KEY (id)
table project index CREATE INDEX project_by_time ON public.project USING btree (created_at DESC, id DESC)
table project index CREATE UNIQUE INDEX project_by_name ON public.project USING btree (name) WHERE (deleted_at IS NULL)
table project index CREATE UNIQUE INDEX project_pkey ON public.project USING btree (id)
table project owner gpuaas_owner
table project_member column project_id uuid not null
table project_member column role text not null
table project_member column since timestamp with time zone not null
table project_member column user_id uuid not null
table project_member column version bigint not null default 1
table project_member constraint project_member_pkey PRIMARY KEY (project_id, user_id)
table project_member constraint project_member_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id)
table project_member constraint project_member_role_check CHECK ((role = ANY (ARRAY['viewer'::text, 'member'::text, 'admin'::text, 'owner'::text])))
table project_member constraint project_member_user_id_fkey FOREIGN KEY (user_id) REFERENCES app_user(id)
table project_member index CREATE INDEX project_member_by_user ON public.project_member USING btree (user_id, project_id)
table project_member index CREATE UNIQUE INDEX project_member_pkey ON public.project_member USING btree (project_id, user_id)
table project_member owner gpuaas_owner
table project_seat column project_id uuid
table project_seat column role text
table project_seat column user_id uuid
table quota column allocations integer not null default 8
table quota column allocations_used integer not null default 0
table quota column max_ttl_hours integer
table quota column project_id uuid not null
table quota column slots integer not null default 8
table quota column slots_per_sku integer
table quota column slots_used integer not null default 0
table quota column spend_per_day_micro bigint
table quota column terminals integer not null default 10
table quota column version bigint not null default 1
table quota constraint quota_allocations_check CHECK ((allocations >= 0))
table quota constraint quota_allocations_used_check CHECK ((allocations_used >= 0))
table quota constraint quota_max_ttl_hours_check CHECK ((max_ttl_hours > 0))
table quota constraint quota_pkey PRIMARY KEY (project_id)
table quota constraint quota_project_id_fkey FOREIGN KEY (project_id) REFERENCES project(id)
table quota constraint quota_slots_check CHECK ((slots >= 0))
table quota constraint quota_slots_per_sku_check CHECK ((slots_per_sku >= 0))
table quota constraint quota_slots_used_check CHECK ((slots_used >= 0))
table quota constraint quota_spend_per_day_micro_check CHECK ((spend_per_day_micro >= 0))
table quota constraint quota_terminals_check CHECK ((terminals >= 0))
table quota index CREATE UNIQUE INDEX quota_pkey ON public.quota USING btree (project_id)
table quota owner gpuaas_owner
table renewal_token column expires_at timestamp with time zone not null
table renewal_token column jti text not null
table renewal_token constraint renewal_token_pkey PRIMARY KEY (jti)
table renewal_token index CREATE UNIQUE INDEX renewal_token_pkey ON public.renewal_token USING btree (jti)
table renewal_token owner gpuaas_owner
table schema_migration column applied_at timestamp with time zone not null default now()
table schema_migration column name text not null
table schema_migration column sha256 bytea not null
table schema_migration column version integer not null
table schema_migration constraint schema_migration_pkey PRIMARY KEY (version)
table schema_migration index CREATE UNIQUE INDEX schema_migration_pkey ON public.schema_migration USING btree (version)
table schema_migration owner gpuaas_owner
table sku column created_at timestamp with time zone not null
table sku column fabric boolean not null
table sku column gpu_count integer not null
table sku column gpu_model text not null
table sku column id uuid not null
table sku column images jsonb not null
table sku column kind text not null
table sku column memory_mib bigint not null
table sku column name text not null
table sku column nvme_gib bigint not null
table sku column slots integer not null
table sku column vcpu integer not null
table sku column version integer not null default 1
table sku column visible boolean not null default true
table sku constraint sku_check CHECK (((kind = 'slice'::text) = (slots > 0)))
table sku constraint sku_gpu_count_check CHECK (((gpu_count >= 0) AND (gpu_count <= 64)))
table sku constraint sku_gpu_model_check CHECK (((length(gpu_model) >= 1) AND (length(gpu_model) <= 64)))
table sku constraint sku_has_price FOREIGN KEY (id, version) REFERENCES sku_version(sku_id, version) DEFERRABLE INITIALLY DEFERRED
table sku constraint sku_kind_check CHECK ((kind = ANY (ARRAY['slice'::text, 'machine'::text])))
table sku constraint sku_memory_mib_check CHECK ((memory_mib > 0))
table sku constraint sku_name_check CHECK ((name ~ '^[a-z0-9][a-z0-9.-]{0,62}$'::text))
table sku constraint sku_name_key UNIQUE (name)
table sku constraint sku_nvme_gib_check CHECK ((nvme_gib >= 0))
table sku constraint sku_pkey PRIMARY KEY (id)
table sku constraint sku_slots_check CHECK (((slots >= 0) AND (slots <= 16)))
table sku constraint sku_vcpu_check CHECK ((vcpu > 0))
table sku index CREATE INDEX sku_by_time ON public.sku USING btree (created_at DESC, id DESC)
table sku index CREATE UNIQUE INDEX sku_name_key ON public.sku USING btree (name)
table sku index CREATE UNIQUE INDEX sku_pkey ON public.sku USING btree (id)
table sku owner gpuaas_owner
table sku_version column created_at timestamp with time zone not null
table sku_version column created_by text not null
table sku_version column currency text not null
table sku_version column price_micro_per_hour bigint not null
table sku_version column sku_id uuid not null
table sku_version column version integer not null
table sku_version constraint sku_version_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text))
table sku_version constraint sku_version_pkey PRIMARY KEY (sku_id, version)
table sku_version constraint sku_version_price_micro_per_hour_check CHECK (((price_micro_per_hour >= 0) AND (price_micro_per_hour < '9007199254740992'::bigint)))
table sku_version constraint sku_version_sku_id_fkey FOREIGN KEY (sku_id) REFERENCES sku(id)
table sku_version constraint sku_version_version_check CHECK ((version > 0))
table sku_version index CREATE UNIQUE INDEX sku_version_pkey ON public.sku_version USING btree (sku_id, version)
table sku_version owner gpuaas_owner
table slot column approved_at timestamp with time zone
table slot column approved_by text
table slot column baseline jsonb
table slot column blockers jsonb not null default '[]'::jsonb
table slot column created_at timestamp with time zone not null
table slot column dirty_op uuid
table slot column disk_gone_at timestamp with time zone
table slot column fabric_device text
table slot column fault text
table slot column fault_detail text
table slot column fault_since timestamp with time zone
table slot column gpu jsonb not null
table slot column id uuid not null
table slot column lease_id uuid
table slot column mac_address text not null
table slot column memory_mib bigint not null
table slot column node_id uuid not null
table slot column numa_node integer
table slot column nvme_device text not null
table slot column nvme_serial text not null
table slot column nvme_size_bytes bigint not null
table slot column nvme_wwn text not null
table slot column pci_address text not null
table slot column private_ip text not null
table slot column quarantine_no bigint
table slot column seen_at timestamp with time zone not null
table slot column slot_index integer not null
table slot column state text not null
table slot column state_reason text
table slot column state_since timestamp with time zone not null
table slot column vcpu_count integer not null
table slot column version bigint not null default 1
table slot column warnings jsonb not null default '[]'::jsonb
table slot constraint slot_check CHECK (((state = ANY (ARRAY['candidate'::text, 'rejected'::text])) OR ((approved_at IS NOT NULL) AND (baseline IS NOT NULL))))
table slot constraint slot_clean CHECK (((dirty_op IS NULL) OR (state = ANY (ARRAY['leased'::text, 'releasing'::text, 'quarantined'::text]))))
table slot constraint slot_disk_gone CHECK (((disk_gone_at IS NULL) OR (state = 'quarantined'::text)))
table slot constraint slot_held CHECK (((state = ANY (ARRAY['reserved'::text, 'leased'::text, 'releasing'::text])) = (lease_id IS NOT NULL)))
table slot constraint slot_id_dirty_op_key UNIQUE (id, dirty_op)
table slot constraint slot_id_lease_id_key UNIQUE (id, lease_id)
table slot constraint slot_id_node_id_key UNIQUE (id, node_id)
table slot constraint slot_id_nvme_serial_nvme_wwn_nvme_size_bytes_key UNIQUE (id, nvme_serial, nvme_wwn, nvme_size_bytes)
table slot constraint slot_id_quarantine_no_key UNIQUE (id, quarantine_no)
table slot constraint slot_in_quarantine CHECK (((state = 'quarantined'::text) = (quarantine_no IS NOT NULL)))
table slot constraint slot_names_lease FOREIGN KEY (lease_id, id) REFERENCES lease(id, slot_id) DEFERRABLE INITIALLY DEFERRED
table slot constraint slot_names_quarantine FOREIGN KEY (quarantine_no, id) REFERENCES slot_quarantine(no, slot_id) DEFERRABLE INITIALLY DEFERRED
table slot constraint slot_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table slot constraint slot_nvme_size_bytes_check CHECK ((nvme_size_bytes > 0))
table slot constraint slot_pkey PRIMARY KEY (id)
table slot constraint slot_slot_index_check CHECK (((slot_index >= 0) AND (slot_index <= 255)))
table slot constraint slot_state_check CHECK ((state = ANY (ARRAY['candidate'::text, 'free'::text, 'reserved'::text, 'leased'::text, 'releasing'::text, 'quarantined'::text, 'rejected'::text, 'retired'::text])))
table slot constraint slot_used CHECK (((state <> ALL (ARRAY['leased'::text, 'releasing'::text])) OR (dirty_op IS NOT NULL)))
table slot index CREATE INDEX slot_by_disk ON public.slot USING btree (nvme_serial, nvme_wwn)
table slot index CREATE INDEX slot_by_node ON public.slot USING btree (node_id, slot_index)
table slot index CREATE INDEX slot_by_time ON public.slot USING btree (created_at DESC, id DESC)
table slot index CREATE INDEX slot_free ON public.slot USING btree (node_id) WHERE (state = 'free'::text)
table slot index CREATE UNIQUE INDEX slot_disk_once ON public.slot USING btree (node_id, nvme_serial, nvme_wwn) WHERE (state <> ALL (ARRAY['candidate'::text, 'rejected'::text, 'retired'::text]))
table slot index CREATE UNIQUE INDEX slot_fabric_once ON public.slot USING btree (node_id, fabric_device) WHERE ((state <> ALL (ARRAY['candidate'::text, 'rejected'::text, 'retired'::text])) AND (fabric_device IS NOT NULL) AND (disk_gone_at IS NULL))
table slot index CREATE UNIQUE INDEX slot_gpu_once ON public.slot USING btree (node_id, pci_address) WHERE ((state <> ALL (ARRAY['candidate'::text, 'rejected'::text, 'retired'::text])) AND (disk_gone_at IS NULL))
table slot index CREATE UNIQUE INDEX slot_id_dirty_op_key ON public.slot USING btree (id, dirty_op)
table slot index CREATE UNIQUE INDEX slot_id_lease_id_key ON public.slot USING btree (id, lease_id)
table slot index CREATE UNIQUE INDEX slot_id_node_id_key ON public.slot USING btree (id, node_id)
table slot index CREATE UNIQUE INDEX slot_id_nvme_serial_nvme_wwn_nvme_size_bytes_key ON public.slot USING btree (id, nvme_serial, nvme_wwn, nvme_size_bytes)
table slot index CREATE UNIQUE INDEX slot_id_quarantine_no_key ON public.slot USING btree (id, quarantine_no)
table slot index CREATE UNIQUE INDEX slot_index_once ON public.slot USING btree (node_id, slot_index) WHERE ((state <> ALL (ARRAY['candidate'::text, 'rejected'::text, 'retired'::text])) AND (disk_gone_at IS NULL))
table slot index CREATE UNIQUE INDEX slot_pkey ON public.slot USING btree (id)
table slot owner gpuaas_owner
table slot_dirt column ended_at timestamp with time zone
table slot_dirt column ended_by bigint
table slot_dirt column ended_clean boolean generated 
CASE
    WHEN (ended_by IS NOT NULL) THEN true
    ELSE NULL::boolean
END
table slot_dirt column ended_kind text
table slot_dirt column ended_op uuid
table slot_dirt column no bigint not null default nextval('slot_no'::regclass)
table slot_dirt column op_id uuid not null
table slot_dirt column open_op uuid generated 
CASE
    WHEN (ended_by IS NULL) THEN op_id
    ELSE NULL::uuid
END
table slot_dirt column since timestamp with time zone not null
table slot_dirt column slot_id uuid not null
table slot_dirt column task_id uuid not null
table slot_dirt constraint slot_dirt_check CHECK ((num_nonnulls(ended_by, ended_kind, ended_op, ended_at) = ANY (ARRAY[0, 4])))
table slot_dirt constraint slot_dirt_check1 CHECK ((ended_by > no))
table slot_dirt constraint slot_dirt_check2 CHECK (((ended_kind <> 'untouched'::text) OR (ended_op = op_id)))
table slot_dirt constraint slot_dirt_ended_kind_check CHECK ((ended_kind = ANY (ARRAY['wipe'::text, 'untouched'::text])))
table slot_dirt constraint slot_dirt_pins_slot FOREIGN KEY (slot_id, open_op) REFERENCES slot(id, dirty_op) DEFERRABLE INITIALLY DEFERRED
table slot_dirt constraint slot_dirt_pkey PRIMARY KEY (no)
table slot_dirt constraint slot_dirt_proof FOREIGN KEY (ended_by, slot_id, ended_kind, ended_clean, ended_op) REFERENCES slot_proof(no, slot_id, kind, clean, op_id)
table slot_dirt constraint slot_dirt_slot_id_fkey FOREIGN KEY (slot_id) REFERENCES slot(id)
table slot_dirt constraint slot_dirt_task_id_fkey FOREIGN KEY (task_id) REFERENCES task(id)
table slot_dirt index CREATE INDEX slot_dirt_by_task ON public.slot_dirt USING btree (task_id)
table slot_dirt index CREATE UNIQUE INDEX slot_dirt_open ON public.slot_dirt USING btree (slot_id) WHERE (ended_by IS NULL)
table slot_dirt index CREATE UNIQUE INDEX slot_dirt_pkey ON public.slot_dirt USING btree (no)
table slot_dirt owner gpuaas_owner
table slot_proof column clean boolean not null
table slot_proof column created_at timestamp with time zone not null
table slot_proof column disk_serial text
table slot_proof column disk_size_bytes bigint
table slot_proof column disk_wwn text
table slot_proof column kind text not null
table slot_proof column no bigint not null default nextval('slot_no'::regclass)
table slot_proof column op_id uuid not null
table slot_proof column proof jsonb not null
table slot_proof column slot_id uuid not null
table slot_proof column subject text not null
table slot_proof column task_id uuid not null
table slot_proof constraint slot_proof_check CHECK (((kind = 'wipe'::text) = ((disk_serial IS NOT NULL) AND (disk_wwn IS NOT NULL) AND (disk_size_bytes IS NOT NULL))))
table slot_proof constraint slot_proof_disk FOREIGN KEY (slot_id, disk_serial, disk_wwn, disk_size_bytes) REFERENCES slot(id, nvme_serial, nvme_wwn, nvme_size_bytes)
table slot_proof constraint slot_proof_figures CHECK (((kind <> 'wipe'::text) OR (NOT clean) OR ((((proof ->> 'verdict'::text) = 'clean'::text) AND (((proof ->> 'tool_rc'::text))::bigint = 0) AND (((proof ->> 'markers_planted'::text))::bigint > 0) AND (((proof ->> 'markers_found'::text))::bigint = 0) AND (((proof ->> 'signatures_found'::text))::bigint = 0) AND (((proof ->> 'blocks_not_zero'::text))::bigint = 0) AND (((proof ->> 'method'::text) <> ALL (ARRAY['write_zeroes'::text, 'overwrite'::text])) OR (((proof ->> 'read_back_bytes'::text))::bigint = disk_size_bytes))) IS TRUE)))
table slot_proof constraint slot_proof_kind_check CHECK ((kind = ANY (ARRAY['wipe'::text, 'untouched'::text, 'reset'::text])))
table slot_proof constraint slot_proof_no_slot_id_kind_clean_key UNIQUE (no, slot_id, kind, clean)
table slot_proof constraint slot_proof_no_slot_id_kind_clean_op_id_key UNIQUE (no, slot_id, kind, clean, op_id)
table slot_proof constraint slot_proof_pkey PRIMARY KEY (no)
table slot_proof constraint slot_proof_slot_id_fkey FOREIGN KEY (slot_id) REFERENCES slot(id)
table slot_proof constraint slot_proof_task_id_fkey FOREIGN KEY (task_id) REFERENCES task(id)
table slot_proof constraint slot_proof_task_id_slot_id_kind_subject_key UNIQUE (task_id, slot_id, kind, subject)
table slot_proof index CREATE INDEX slot_proof_by_slot ON public.slot_proof USING btree (slot_id, no DESC)
table slot_proof index CREATE UNIQUE INDEX slot_proof_no_slot_id_kind_clean_key ON public.slot_proof USING btree (no, slot_id, kind, clean)
table slot_proof index CREATE UNIQUE INDEX slot_proof_no_slot_id_kind_clean_op_id_key ON public.slot_proof USING btree (no, slot_id, kind, clean, op_id)
table slot_proof index CREATE UNIQUE INDEX slot_proof_pkey ON public.slot_proof USING btree (no)
table slot_proof index CREATE UNIQUE INDEX slot_proof_task_id_slot_id_kind_subject_key ON public.slot_proof USING btree (task_id, slot_id, kind, subject)
table slot_proof owner gpuaas_owner
table slot_quarantine column code text not null
table slot_quarantine column ended_at timestamp with time zone
table slot_quarantine column ended_by bigint
table slot_quarantine column ended_clean boolean generated 
CASE
    WHEN (ended_by IS NOT NULL) THEN true
    ELSE NULL::boolean
END
table slot_quarantine column ended_kind text generated 
CASE
    WHEN (ended_by IS NOT NULL) THEN 'wipe'::text
    ELSE NULL::text
END
table slot_quarantine column no bigint not null default nextval('slot_no'::regclass)
table slot_quarantine column open_no bigint generated 
CASE
    WHEN (ended_by IS NULL) THEN no
    ELSE NULL::bigint
END
table slot_quarantine column reason text not null
table slot_quarantine column since timestamp with time zone not null
table slot_quarantine column slot_id uuid not null
table slot_quarantine constraint slot_quarantine_check CHECK ((num_nonnulls(ended_by, ended_at) = ANY (ARRAY[0, 2])))
table slot_quarantine constraint slot_quarantine_check1 CHECK ((ended_by > no))
table slot_quarantine constraint slot_quarantine_no_slot_id_key UNIQUE (no, slot_id)
table slot_quarantine constraint slot_quarantine_pins_slot FOREIGN KEY (slot_id, open_no) REFERENCES slot(id, quarantine_no) DEFERRABLE INITIALLY DEFERRED
table slot_quarantine constraint slot_quarantine_pkey PRIMARY KEY (no)
table slot_quarantine constraint slot_quarantine_proof FOREIGN KEY (ended_by, slot_id, ended_kind, ended_clean) REFERENCES slot_proof(no, slot_id, kind, clean)
table slot_quarantine constraint slot_quarantine_slot_id_fkey FOREIGN KEY (slot_id) REFERENCES slot(id)
table slot_quarantine index CREATE UNIQUE INDEX slot_quarantine_no_slot_id_key ON public.slot_quarantine USING btree (no, slot_id)
table slot_quarantine index CREATE UNIQUE INDEX slot_quarantine_open ON public.slot_quarantine USING btree (slot_id) WHERE (ended_by IS NULL)
table slot_quarantine index CREATE UNIQUE INDEX slot_quarantine_pkey ON public.slot_quarantine USING btree (no)
table slot_quarantine owner gpuaas_owner
table ssh_key column created_at timestamp with time zone not null
table ssh_key column id uuid not null
table ssh_key column name text not null
table ssh_key column public_key text not null
table ssh_key column user_id uuid not null
table ssh_key constraint ssh_key_name_check CHECK (((length(name) >= 1) AND (length(name) <= 64)))
table ssh_key constraint ssh_key_pkey PRIMARY KEY (id)
table ssh_key constraint ssh_key_public_key_check CHECK ((length(public_key) <= 16384))
table ssh_key constraint ssh_key_user_id_fkey FOREIGN KEY (user_id) REFERENCES app_user(id)
table ssh_key constraint ssh_key_user_id_name_key UNIQUE (user_id, name)
table ssh_key index CREATE UNIQUE INDEX ssh_key_pkey ON public.ssh_key USING btree (id)
table ssh_key index CREATE UNIQUE INDEX ssh_key_user_id_name_key ON public.ssh_key USING btree (user_id, name)
table ssh_key owner gpuaas_owner
table task column actor_ref text not null
table task column cancel_at timestamp with time zone
table task column code text
table task column correlation_id uuid not null
table task column created_at timestamp with time zone not null
table task column delivered_at timestamp with time zone
table task column delivered_to uuid
table task column detail text
table task column dispatched_at timestamp with time zone
table task column done_bytes bigint
table task column ended_at timestamp with time zone
table task column envelope bytea not null
table task column fence bigint
table task column id uuid not null
table task column intent_sha256 bytea
table task column issue integer not null
table task column keyid text not null
table task column lease_until timestamp with time zone
table task column named_by uuid
table task column node_epoch bigint not null
table task column node_id uuid not null
table task column of_bytes bigint
table task column op_id uuid not null
table task column output jsonb
table task column payload_sha256 bytea not null
table task column phase text
table task column phase_since timestamp with time zone
table task column result bytea
table task column seq bigint not null
table task column slots uuid[]
table task column start_by timestamp with time zone not null
table task column started_at timestamp with time zone
table task column state text not null
table task column task_type text not null
table task column timings jsonb not null default '{}'::jsonb
table task column type_version integer not null
table task column undone jsonb not null default '[]'::jsonb
table task column version bigint not null default 1
table task constraint task_check CHECK (((state <> 'succeeded'::text) OR (started_at IS NOT NULL)))
table task constraint task_check1 CHECK (((state = ANY (ARRAY['succeeded'::text, 'failed'::text, 'expired'::text, 'cancelled'::text])) = (ended_at IS NOT NULL)))
table task constraint task_check2 CHECK (((state = ANY (ARRAY['queued'::text, 'expired'::text, 'cancelled'::text, 'failed'::text])) OR (fence IS NOT NULL)))
table task constraint task_node_id_fkey FOREIGN KEY (node_id) REFERENCES node(id)
table task constraint task_op_id_issue_key UNIQUE (op_id, issue)
table task constraint task_pkey PRIMARY KEY (id)
table task constraint task_state_check CHECK ((state = ANY (ARRAY['queued'::text, 'dispatched'::text, 'started'::text, 'unknown'::text, 'succeeded'::text, 'failed'::text, 'expired'::text, 'cancelled'::text])))
table task index CREATE INDEX task_by_node ON public.task USING btree (node_id, created_at DESC, id DESC)
table task index CREATE INDEX task_by_time ON public.task USING btree (created_at DESC, id DESC)
table task index CREATE INDEX task_looked ON public.task USING btree (ended_at) WHERE ((intent_sha256 IS NULL) AND (ended_at IS NOT NULL))
table task index CREATE INDEX task_open ON public.task USING btree (node_id) WHERE (state = ANY (ARRAY['queued'::text, 'dispatched'::text, 'started'::text, 'unknown'::text]))
table task index CREATE INDEX task_queued ON public.task USING btree (node_id, seq) WHERE (state = 'queued'::text)
table task index CREATE UNIQUE INDEX task_op_id_issue_key ON public.task USING btree (op_id, issue)
table task index CREATE UNIQUE INDEX task_pkey ON public.task USING btree (id)
table task owner gpuaas_owner
table trust_bundle column created_at timestamp with time zone not null
table trust_bundle column delegation bytea not null
table trust_bundle column manifest bytea not null
table trust_bundle column manifest_version bigint not null
table trust_bundle constraint trust_bundle_manifest_version_check CHECK ((manifest_version > 0))
table trust_bundle constraint trust_bundle_pkey PRIMARY KEY (manifest_version)
table trust_bundle index CREATE UNIQUE INDEX trust_bundle_pkey ON public.trust_bundle USING btree (manifest_version)
table trust_bundle owner gpuaas_owner
table trust_rotation column asked_at timestamp with time zone not null
table trust_rotation column asked_by text not null
table trust_rotation column purpose text not null
table trust_rotation constraint trust_rotation_asked_by_check CHECK ((length(asked_by) <= 256))
table trust_rotation constraint trust_rotation_pkey PRIMARY KEY (purpose)
table trust_rotation constraint trust_rotation_purpose_check CHECK ((purpose = ANY (ARRAY['slice'::text, 'allocation'::text, 'terminal'::text, 'oci'::text, 'diag'::text])))
table trust_rotation index CREATE UNIQUE INDEX trust_rotation_pkey ON public.trust_rotation USING btree (purpose)
table trust_rotation owner gpuaas_owner
table usage_span column allocation_id uuid not null
table usage_span column boot_id text
table usage_span column charged_until timestamp with time zone not null
table usage_span column end_reason text
table usage_span column id uuid not null default gen_random_uuid()
table usage_span column proven_until timestamp with time zone not null
table usage_span column quantity integer not null
table usage_span column rate_micro_per_hour bigint not null
table usage_span column sku_id uuid not null
table usage_span column sku_version integer not null
table usage_span column span tstzrange not null
table usage_span constraint usage_span_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES allocation(id)
table usage_span constraint usage_span_ended CHECK (((end_reason IS NULL) = upper_inf(span)))
table usage_span constraint usage_span_once EXCLUDE USING gist (allocation_id WITH =, span WITH &&)
table usage_span constraint usage_span_pkey PRIMARY KEY (id)
table usage_span constraint usage_span_quantity_check CHECK ((quantity > 0))
table usage_span constraint usage_span_rate_micro_per_hour_check CHECK ((rate_micro_per_hour >= 0))
table usage_span constraint usage_span_sku_id_sku_version_fkey FOREIGN KEY (sku_id, sku_version) REFERENCES sku_version(sku_id, version)
table usage_span index CREATE INDEX usage_span_once ON public.usage_span USING gist (allocation_id, span)
table usage_span index CREATE UNIQUE INDEX usage_span_open ON public.usage_span USING btree (allocation_id) WHERE (end_reason IS NULL)
table usage_span index CREATE UNIQUE INDEX usage_span_pkey ON public.usage_span USING btree (id)
table usage_span owner gpuaas_owner
table user_identity column created_at timestamp with time zone not null
table user_identity column email text
table user_identity column issuer text not null
table user_identity column judged_at timestamp with time zone not null
table user_identity column subject text not null
table user_identity column user_id uuid not null
table user_identity constraint user_identity_issuer_check CHECK (((length(issuer) >= 1) AND (length(issuer) <= 2048)))
table user_identity constraint user_identity_pkey PRIMARY KEY (issuer, subject)
table user_identity constraint user_identity_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 255)))
table user_identity constraint user_identity_user_id_fkey FOREIGN KEY (user_id) REFERENCES app_user(id)
table user_identity index CREATE INDEX user_identity_by_user ON public.user_identity USING btree (user_id)
table user_identity index CREATE UNIQUE INDEX user_identity_pkey ON public.user_identity USING btree (issuer, subject)
table user_identity owner gpuaas_owner
table workflow column allocation_id uuid not null
table workflow column cancel_at timestamp with time zone
table workflow column created_at timestamp with time zone not null
table workflow column due_at timestamp with time zone not null
table workflow column ended_at timestamp with time zone
table workflow column epoch bigint not null default 0
table workflow column error jsonb
table workflow column flow text not null
table workflow column id uuid not null
table workflow column lease_until timestamp with time zone not null
table workflow column state text not null
table workflow column wait_reason text
table workflow column waits_for uuid
table workflow constraint workflow_allocation_id_fkey FOREIGN KEY (allocation_id) REFERENCES allocation(id)
table workflow constraint workflow_ended CHECK (((state = ANY (ARRAY['done'::text, 'undone'::text])) = (ended_at IS NOT NULL)))
table workflow constraint workflow_pkey PRIMARY KEY (id)
table workflow constraint workflow_state_check CHECK ((state = ANY (ARRAY['running'::text, 'undoing'::text, 'done'::text, 'undone'::text, 'stuck'::text])))
table workflow index CREATE INDEX workflow_by_allocation ON public.workflow USING btree (allocation_id, created_at)
table workflow index CREATE INDEX workflow_due ON public.workflow USING btree (due_at) WHERE (state = ANY (ARRAY['running'::text, 'undoing'::text]))
table workflow index CREATE INDEX workflow_waits ON public.workflow USING btree (waits_for) WHERE ((state = ANY (ARRAY['running'::text, 'undoing'::text])) AND (waits_for IS NOT NULL))
table workflow index CREATE UNIQUE INDEX workflow_pkey ON public.workflow USING btree (id)
table workflow owner gpuaas_owner
table workflow_step column at timestamp with time zone not null
table workflow_step column record jsonb not null
table workflow_step column seq integer not null
table workflow_step column workflow_id uuid not null
table workflow_step constraint workflow_step_pkey PRIMARY KEY (workflow_id, seq)
table workflow_step constraint workflow_step_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES workflow(id)
table workflow_step index CREATE UNIQUE INDEX workflow_step_pkey ON public.workflow_step USING btree (workflow_id, seq)
table workflow_step owner gpuaas_owner
trigger CREATE CONSTRAINT TRIGGER machine_is_cleaned_by_proof AFTER UPDATE ON public.machine_dirt DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION machine_is_cleaned_by_proof()
trigger CREATE TRIGGER allocation_moved AFTER INSERT OR UPDATE ON public.allocation FOR EACH ROW EXECUTE FUNCTION allocation_moved()
trigger CREATE TRIGGER allocation_moves BEFORE INSERT OR UPDATE ON public.allocation FOR EACH ROW EXECUTE FUNCTION allocation_moves()
trigger CREATE TRIGGER allocation_slot_ends AFTER UPDATE ON public.lease FOR EACH ROW WHEN (((new.ended_at IS NOT NULL) AND (old.ended_at IS NULL) AND (new.slot_id IS NOT NULL))) EXECUTE FUNCTION allocation_slot_ends()
trigger CREATE TRIGGER allocation_slot_is_leased BEFORE INSERT ON public.allocation_slot FOR EACH ROW EXECUTE FUNCTION allocation_slot_is_leased()
trigger CREATE TRIGGER audit_of_project BEFORE INSERT ON public.audit FOR EACH ROW WHEN ((new.target_kind = ANY (ARRAY['project'::text, 'allocation'::text, 'token'::text]))) EXECUTE FUNCTION audit_of_project()
trigger CREATE TRIGGER machine_dirt_ends_once BEFORE UPDATE ON public.machine_dirt FOR EACH ROW EXECUTE FUNCTION machine_dirt_ends_once()
trigger CREATE TRIGGER machine_is_clean BEFORE INSERT ON public.lease FOR EACH ROW WHEN ((new.slot_id IS NULL)) EXECUTE FUNCTION machine_is_clean()
trigger CREATE TRIGGER project_ends BEFORE UPDATE OF deleted_at ON public.project FOR EACH ROW EXECUTE FUNCTION project_ends()
trigger CREATE TRIGGER project_keeps_owner AFTER DELETE OR UPDATE ON public.project_member FOR EACH ROW EXECUTE FUNCTION project_keeps_owner()
trigger CREATE TRIGGER slot_changes_room AFTER INSERT OR DELETE OR UPDATE OF state, fault, gpu ON public.slot FOR EACH ROW EXECUTE FUNCTION slot_changes_room()
trigger CREATE TRIGGER task_dirties AFTER UPDATE OF state ON public.task FOR EACH ROW WHEN (((new.state = 'dispatched'::text) AND (old.state = 'queued'::text) AND (new.slots IS NOT NULL) AND (new.task_type = 'slice.vm_provision'::text))) EXECUTE FUNCTION task_dirties()
