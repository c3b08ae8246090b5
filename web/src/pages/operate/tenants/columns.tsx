import { Link } from "@tanstack/react-router";
import { Badge, type Column, formatNumber, Time } from "@/design";
import { formatBytes } from "@/parts/bytes";
import type { Tenant, TenantFigures } from "@/parts/tenant/queries";
import { commonTexts } from "@/texts/common";
import { tenantsTexts as texts } from "@/texts/tenants";

const WIDE = "max-lg:hidden";

/** A dash means: not known yet, or the pool is unreachable. */
export function columnsOf(figures: ReadonlyMap<string, TenantFigures>): readonly Column<Tenant>[] {
  const number = (tenant: Tenant, of: (each: TenantFigures) => number | null | undefined) => {
    const each = figures.get(tenant.id);
    return (each && of(each)) ?? null;
  };
  return [
    {
      name: texts.columns.tenant,
      cell: (tenant) => (
        <>
          <Link
            to="/operate/tenants/$id"
            params={{ id: tenant.id }}
            className="font-[550] underline decoration-line-strong underline-offset-3 [overflow-wrap:anywhere] hover:decoration-text"
          >
            {tenant.name}
          </Link>
          <code className="block text-muted [overflow-wrap:anywhere]">{tenant.slug}</code>
        </>
      ),
    },
    {
      name: texts.columns.state,
      cell: (tenant) =>
        tenant.disabled_at ? <Badge tone="bad">{texts.disabled}</Badge> : <Badge tone="ok">{texts.active}</Badge>,
    },
    {
      name: texts.columns.users,
      right: true,
      className: "max-lg:hidden",
      cell: (tenant) => shown(number(tenant, (each) => each.users)),
    },
    {
      name: texts.columns.balance,
      right: true,
      cell: (tenant) => {
        const held = number(tenant, (each) => each.held);
        return (
          <>
            {shown(number(tenant, (each) => each.balance))}
            {held !== null && held > 0 && (
              <span className="block whitespace-nowrap text-muted">{texts.held(formatNumber(held))}</span>
            )}
          </>
        );
      },
    },
    {
      name: texts.columns.jobs,
      right: true,
      className: "max-sm:hidden",
      cell: (tenant) => shown(number(tenant, (each) => each.active_jobs)),
    },
    {
      name: texts.columns.storage,
      right: true,
      className: "max-lg:hidden",
      cell: (tenant) => {
        const bytes = number(tenant, (each) => each.storage_bytes);
        const files = number(tenant, (each) => each.storage_files);
        return bytes === null ? (
          commonTexts.none
        ) : (
          <span title={texts.files(formatNumber(files ?? 0))} className="whitespace-nowrap">
            {formatBytes(bytes)}
          </span>
        );
      },
    },
    { name: texts.columns.pool, className: WIDE, cell: (tenant) => <code>{tenant.pool}</code> },
    {
      name: texts.columns.created,
      right: true,
      className: WIDE,
      cell: (tenant) => <Time at={tenant.created_at} className="whitespace-nowrap text-muted" />,
    },
  ];
}

function shown(value: number | null): string {
  return value === null ? commonTexts.none : formatNumber(value);
}
