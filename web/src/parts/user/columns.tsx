import { Link } from "@tanstack/react-router";
import { Badge, type Column, Time } from "@/design";
import { roleTexts, usersTexts as texts } from "@/texts/users";
import type { User } from "./queries";

const LINK = "underline decoration-line-strong underline-offset-3 [overflow-wrap:anywhere] hover:decoration-text";

export function userColumns({ withTenant }: { withTenant: boolean }): readonly Column<User>[] {
  const columns: Column<User>[] = [
    {
      name: texts.columns.user,
      cell: (user) => (
        <>
          <Link to="/operate/users/$id" params={{ id: user.id }} className={`font-[550] ${LINK}`}>
            {user.email}
          </Link>
          {user.name && <span className="block text-muted [overflow-wrap:anywhere]">{user.name}</span>}
        </>
      ),
    },
    { name: texts.columns.state, cell: (user) => <UserState user={user} /> },
    {
      name: texts.columns.role,
      className: "max-sm:hidden",
      cell: (user) => <span className="whitespace-nowrap">{roleTexts[user.role]}</span>,
    },
  ];
  const tenant: Column<User> = {
    name: texts.columns.tenant,
    className: "max-lg:hidden",
    cell: (user) => (
      <Link to="/operate/tenants/$id" params={{ id: user.tenant_id }} className={LINK}>
        {user.tenant}
      </Link>
    ),
  };
  const created: Column<User> = {
    name: texts.columns.created,
    right: true,
    className: "max-lg:hidden",
    cell: (user) => <Time at={user.created_at} className="whitespace-nowrap text-muted" />,
  };
  return withTenant ? [...columns, tenant, created] : [...columns, created];
}

export function UserState({ user }: { user: User }) {
  if (user.deleted_at) return <Badge>{texts.deleted}</Badge>;
  return user.disabled_at ? <Badge tone="bad">{texts.disabled}</Badge> : <Badge tone="ok">{texts.active}</Badge>;
}
