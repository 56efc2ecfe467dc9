-- Image catalogues as operators have signed them. Only what opens under the operators' key counts, whatever is here;
-- so a number may be taken by a row that says nothing.
create table if not exists image_catalogue (
    no         bigint generated always as identity primary key,
    version    bigint not null,
    document   bytea not null check (octet_length(document) <= 262144),
    created_at timestamptz not null
);
create index if not exists image_catalogue_by_version on image_catalogue (version, no);

grant select, insert on image_catalogue to gpuaas_app;
