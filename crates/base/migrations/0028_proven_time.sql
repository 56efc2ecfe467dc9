-- Used time reaches as far as it is proved, and not across what nobody has signed for. A node that was silent for too long,
-- a host that was started again, and a guest that is gone or off without anybody's having asked end a span at its last
-- proof; the next proof begins another. Of a node's lists only the newest is kept, so that this is written down as it comes.
alter table usage_span add column if not exists boot_id text;

-- The node has signed that it held this until then, in this life of its host, if that matters. Whether anything has moved.
create or replace function usage_proven(of_allocation uuid, until timestamptz, boot text) returns boolean
language plpgsql security definer set search_path = public, pg_temp as $$
declare
    gap constant interval := '300 seconds';
    begins timestamptz := date_trunc('second', until + interval '999999 microseconds');
begin
    update usage_span set proven_until = least(until, coalesce(upper(span), until)), boot_id = coalesce(boot, boot_id)
    where allocation_id = of_allocation and not isempty(span) and proven_until < least(until, coalesce(upper(span), until))
      and until <= proven_until + gap and (boot is null or boot_id is null or boot_id = boot);
    if found then
        return true;
    end if;
    -- Whoever releases it comes before or after this, and closes what is open then.
    perform from allocation where id = of_allocation and state = 'active' for share;
    if not found then
        return false;
    end if;
    update usage_span set span = tstzrange(lower(span), greatest(lower(span), date_trunc('second', proven_until))),
                          end_reason = case when until > proven_until + gap then 'unproven' else 'power_lost' end
    where allocation_id = of_allocation and end_reason is null and proven_until < until
      and (until > proven_until + gap or boot_id <> boot);
    insert into usage_span (allocation_id, sku_id, sku_version, quantity, rate_micro_per_hour, span, proven_until, charged_until,
                            boot_id)
    select a.id, a.sku_id, a.sku_version, 1, a.rate_micro_per_hour, tstzrange(begins, null), begins, begins, boot
    from allocation a
    where a.id = of_allocation
      and not exists (select from usage_span s where s.allocation_id = a.id and (s.end_reason is null or s.proven_until >= until));
    return found;
end
$$;

-- The node has signed that it is not there, or off, and nobody had asked for that.
create or replace function usage_lost(of_allocation uuid, seen_at timestamptz, why text) returns boolean
language plpgsql security definer set search_path = public, pg_temp as $$
begin
    update usage_span set span = tstzrange(lower(span), greatest(lower(span), date_trunc('second', proven_until))),
                          end_reason = why
    where allocation_id = of_allocation and end_reason is null and proven_until < seen_at;
    return found;
end
$$;

revoke execute on function usage_proven(uuid, timestamptz, text) from public;
revoke execute on function usage_lost(uuid, timestamptz, text) from public;
grant execute on function usage_proven(uuid, timestamptz, text) to gpuaas_app;
grant execute on function usage_lost(uuid, timestamptz, text) to gpuaas_app;
