-- Who an identity provider says somebody is. A person is known by issuer and subject together and by nothing else.
create table if not exists user_identity (
    issuer      text not null check (length(issuer) between 1 and 2048),
    subject     text not null check (length(subject) between 1 and 255),
    user_id     uuid not null references app_user (id),
    email       text,
    -- When the newest token was issued whose word was taken.
    judged_at   timestamptz not null,
    created_at  timestamptz not null,
    primary key (issuer, subject)
);
create index if not exists user_identity_by_user on user_identity (user_id);

-- A browser that is signed in. As with tokens, only the digest of what it holds is kept.
create table if not exists browser_session (
    id            uuid primary key,
    sha256        bytea not null unique check (length(sha256) = 32),
    user_id       uuid not null references app_user (id),
    created_at    timestamptz not null,
    last_used_at  timestamptz not null,
    ends_at       timestamptz not null,
    ended_at      timestamptz
);
create index if not exists browser_session_by_user on browser_session (user_id, ends_at);

-- A token of a project works in that project only, with at most this role.
alter table api_token add column if not exists project_id uuid references project (id);
alter table api_token add column if not exists project_role text;
alter table api_token drop constraint if exists api_token_project;
alter table api_token add constraint api_token_project check (
    (project_id is null and project_role is null)
    or (project_id is not null and project_role in ('viewer', 'member', 'admin', 'owner') and scopes = '{project}'));
create index if not exists api_token_by_project on api_token (project_id, created_at) where project_id is not null;

grant select, insert on user_identity to gpuaas_app;
grant update (email, judged_at) on user_identity to gpuaas_app;
grant select, insert, delete on browser_session to gpuaas_app;
grant update (last_used_at, ended_at) on browser_session to gpuaas_app;
