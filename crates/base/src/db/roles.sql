-- Run once per cluster by its superuser, before the first migration. Idempotent.
-- gpuaas_owner migrates and owns; gpuaas_app is what processes log in as, and owns nothing;
-- gpuaas_sealer is put on by the audit sealer for one transaction at a time and cannot log in.
do $$
begin
    if not exists (select from pg_roles where rolname = 'gpuaas_owner') then
        create role gpuaas_owner login;
    end if;
    if not exists (select from pg_roles where rolname = 'gpuaas_sealer') then
        create role gpuaas_sealer nologin;
    end if;
    if not exists (select from pg_roles where rolname = 'gpuaas_app') then
        create role gpuaas_app login noinherit;
    end if;
    if not pg_has_role('gpuaas_app', 'gpuaas_sealer', 'member') then
        grant gpuaas_sealer to gpuaas_app;
    end if;
end
$$;
