-- A name is somebody's for ever: the application makes users and changes what they may, never who they are.
revoke update on app_user from gpuaas_app;
grant update (platform_roles, disabled_at, version) on app_user to gpuaas_app;
-- Whether a name reads like one that is taken.
create index if not exists app_user_by_plain_name on app_user (lower(name));
