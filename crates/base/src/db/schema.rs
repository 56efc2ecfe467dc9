//! The schema as text, in an order that does not depend on how it came about: what the migrations give is compared
//! with the golden `schema.sql`, which a person reads in review.

use sqlx::postgres::PgConnection;

/// One line per column, constraint, index and grant, sorted.
const LINES: &str = "
    select line from (
        select format('table %s column %s %s%s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                      case when a.attnotnull then ' not null' else '' end,
                      case when a.attgenerated = 's' then ' generated' when d.adbin is not null then ' default' else '' end,
                      coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')) as line
        from pg_attribute a
        join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p', 'v', 'S') and c.relkind <> 'S'
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace = 'public'::regnamespace and a.attnum > 0 and not a.attisdropped
        union all
        select format('table %s constraint %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
        from pg_constraint where connamespace = 'public'::regnamespace and conrelid <> 0 and contype <> 'n'
        union all
        select format('table %s index %s', tablename, indexdef) from pg_indexes where schemaname = 'public'
        union all
        select format('table %s owner %s', c.relname, pg_get_userbyid(c.relowner))
        from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
        union all
        select format('sequence %s owner %s', c.relname, pg_get_userbyid(c.relowner))
        from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'S'
        union all
        select format('grant %s on %s to %s', string_agg(lower(privilege_type), ', ' order by privilege_type), table_name, grantee)
        from information_schema.role_table_grants
        where table_schema = 'public' and grantee like 'gpuaas\\_%' and grantee <> 'gpuaas_owner'
        group by table_name, grantee
        union all
        select format('grant %s (%s) on %s to %s', lower(p.privilege_type), string_agg(p.column_name, ', ' order by p.column_name), p.table_name, p.grantee)
        from information_schema.role_column_grants p
        where p.table_schema = 'public' and p.privilege_type in ('INSERT', 'UPDATE') and p.grantee like 'gpuaas\\_%' and p.grantee <> 'gpuaas_owner'
          and not exists (select from information_schema.role_table_grants t
                          where t.table_name = p.table_name and t.grantee = p.grantee and t.privilege_type = p.privilege_type)
        group by p.privilege_type, p.table_name, p.grantee
        union all
        select format('grant %s on sequence %s to %s', string_agg(lower(privilege_type), ', ' order by privilege_type), object_name, grantee)
        from information_schema.usage_privileges
        where object_schema = 'public' and object_type = 'SEQUENCE' and grantee like 'gpuaas\\_%' and grantee <> 'gpuaas_owner'
        group by object_name, grantee
        union all
        select format('function %s %s', p.oid::regprocedure, md5(p.prosrc))
        from pg_proc p where p.pronamespace = 'public'::regnamespace
          and not exists (select from pg_depend e where e.objid = p.oid and e.deptype = 'e')
        union all
        select format('trigger %s', pg_get_triggerdef(t.oid)) from pg_trigger t
        join pg_class c on c.oid = t.tgrelid
        where not t.tgisinternal and c.relnamespace = 'public'::regnamespace
        union all
        select format('extension %s', extname) from pg_extension where extname <> 'plpgsql'
    ) lines order by line collate \"C\"";

pub async fn describe(conn: &mut PgConnection) -> sqlx::Result<String> {
    let lines: Vec<String> = sqlx::query_scalar(LINES).fetch_all(conn).await?;
    Ok(lines.join("\n") + "\n")
}
