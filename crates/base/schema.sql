grant delete, insert, select on outbox to gpuaas_app
grant delete, insert, select on renewal_token to gpuaas_app
grant delete, insert, select on slot to gpuaas_app
grant delete, insert, select on trust_rotation to gpuaas_app
grant delete, insert, select, update on guest_telemetry to gpuaas_app
grant delete, insert, select, update on node_session to gpuaas_app
grant delete, insert, select, update on task to gpuaas_app
grant insert (clean, created_at, disk_serial, disk_size_bytes, disk_wwn, kind, op_id, proof, slot_id, subject, task_id) on slot_proof to gpuaas_app
grant insert (code, reason, since, slot_id) on slot_quarantine to gpuaas_app
grant insert (op_id, since, slot_id, task_id) on slot_dirt to gpuaas_app
grant insert, select on audit to gpuaas_app
grant insert, select on audit_seal to gpuaas_sealer
grant insert, select on image_catalogue to gpuaas_app
grant insert, select on installation to gpuaas_app
grant insert, select on intent to gpuaas_app
grant insert, select on lease to gpuaas_app
grant insert, select on trust_bundle to gpuaas_app
grant insert, select, update on api_token to gpuaas_app
grant insert, select, update on app_user to gpuaas_app
grant insert, select, update on audit_head to gpuaas_sealer
grant insert, select, update on certificate to gpuaas_app
grant insert, select, update on enrolment to gpuaas_app
grant insert, select, update on node to gpuaas_app
grant insert, select, update on node_held to gpuaas_app
grant insert, select, update on node_topology to gpuaas_app
grant select on audit to gpuaas_sealer
grant select on audit_head to gpuaas_app
grant select on audit_seal to gpuaas_app
grant select on schema_migration to gpuaas_app
grant select on slot_dirt to gpuaas_app
grant select on slot_proof to gpuaas_app
grant select on slot_quarantine to gpuaas_app
grant update (approved_at, approved_by, baseline, blockers, dirty_op, disk_gone_at, fault, fault_detail, fault_since, gpu, lease_id, mac_address, memory_mib, numa_node, nvme_device, private_ip, quarantine_no, seen_at, slot_index, state, state_reason, state_since, vcpu_count, version, warnings) on slot to gpuaas_app
grant update (end_reason, ended_at) on lease to gpuaas_app
grant update (ended_at, ended_by) on slot_quarantine to gpuaas_app
grant update (ended_at, ended_by, ended_kind, ended_op) on slot_dirt to gpuaas_app
grant update (published_at, seq) on outbox to gpuaas_app
grant update (withdrawn_at) on intent to gpuaas_app
grant usage on sequence slot_no to gpuaas_app
grant usage on sequence task_fence to gpuaas_app
sequence image_catalogue_no_seq owner gpuaas_owner
sequence outbox_drawn_seq owner gpuaas_owner
sequence slot_no owner gpuaas_owner
sequence task_fence owner gpuaas_owner
table api_token column created_at timestamp with time zone not null
table api_token column expires_at timestamp with time zone not null
table api_token column id uuid not null
table api_token column last_used_at timestamp with time zone
table api_token column name text not null
table api_token column revoked_at timestamp with time zone
table api_token column scopes text[] not null
table api_token column sha256 bytea not null
table api_token column user_id uuid not null
table api_token constraint api_token_name_check CHECK (((length(name) >= 1) AND (length(name) <= 128)))
table api_token constraint api_token_pkey PRIMARY KEY (id)
table api_token constraint api_token_sha256_check CHECK ((length(sha256) = 32))
table api_token constraint api_token_sha256_key UNIQUE (sha256)
table api_token constraint api_token_user_id_fkey FOREIGN KEY (user_id) REFERENCES app_user(id)
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
table audit column target_id text not null
table audit column target_kind text not null
table audit constraint audit_actor_kind_check CHECK ((actor_kind = ANY (ARRAY['user'::text, 'token'::text, 'node'::text, 'system'::text, 'role'::text])))
table audit constraint audit_outcome_check CHECK ((outcome = ANY (ARRAY['ok'::text, 'refused'::text, 'failed'::text])))
table audit constraint audit_pkey PRIMARY KEY (id)
table audit index CREATE INDEX audit_by_actor ON public.audit USING btree (actor_id, at DESC)
table audit index CREATE INDEX audit_by_target ON public.audit USING btree (target_kind, target_id, at DESC)
table audit index CREATE INDEX audit_by_time ON public.audit USING btree (at DESC, id DESC)
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
table node index CREATE INDEX node_by_proof ON public.node USING btree (COALESCE(last_probe_at, created_at)) WHERE (state = ANY (ARRAY['ready'::text, 'draining'::text, 'drained'::text]))
table node index CREATE INDEX node_by_time ON public.node USING btree (created_at DESC, id DESC)
table node index CREATE INDEX node_unproved ON public.node USING btree (probe_asked_at NULLS FIRST, id) WHERE (state = ANY (ARRAY['enrolling'::text, 'stale'::text]))
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
table outbox column published_at timestamp with time zone
table outbox column seq bigint
table outbox column subject_id text not null
table outbox column subject_kind text not null
table outbox constraint outbox_pkey PRIMARY KEY (id)
table outbox constraint outbox_seq_key UNIQUE (seq)
table outbox index CREATE INDEX outbox_by_subject ON public.outbox USING btree (subject_kind, subject_id, seq)
table outbox index CREATE INDEX outbox_unstamped ON public.outbox USING btree (drawn) WHERE (seq IS NULL)
table outbox index CREATE UNIQUE INDEX outbox_pkey ON public.outbox USING btree (id)
table outbox index CREATE UNIQUE INDEX outbox_seq_key ON public.outbox USING btree (seq)
table outbox owner gpuaas_owner
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
table task column actor_ref text not null
table task column cancel_at timestamp with time zone
table task column code text
table task column correlation_id uuid not null
table task column created_at timestamp with time zone not null
table task column delivered_at timestamp with time zone
table task column delivered_to uuid
table task column detail text
table task column dispatched_at timestamp with time zone
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
table task column op_id uuid not null
table task column output jsonb
table task column payload_sha256 bytea not null
table task column phase text
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
table task index CREATE INDEX task_open_op ON public.task USING btree (op_id) WHERE (state = ANY (ARRAY['queued'::text, 'dispatched'::text, 'started'::text, 'unknown'::text]))
table task index CREATE INDEX task_out ON public.task USING btree (node_id) WHERE (state = ANY (ARRAY['dispatched'::text, 'started'::text, 'unknown'::text]))
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
