import { useInfiniteQuery } from "@tanstack/react-query";
import { UserPlus, UsersRound } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Button, Empty } from "@/design";
import { PagedTable } from "@/parts/PagedTable";
import { useRole } from "@/parts/useRole";
import { AddUserDialog } from "@/parts/user/AddUserDialog";
import { userColumns } from "@/parts/user/columns";
import { usersQuery } from "@/parts/user/queries";
import { tenantTexts as texts } from "@/texts/tenants";

export function TenantUsers({ tenant }: { tenant: Schemas["Tenant"] }) {
  const [isAdding, setAdding] = useState(false);
  const { mayManageUsers } = useRole();
  const query = useInfiniteQuery(usersQuery("", tenant.slug));
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      {mayManageUsers && (
        <Button className="justify-self-start" icon={<UserPlus size={16} />} onClick={() => setAdding(true)}>
          {texts.addUser}
        </Button>
      )}
      <PagedTable
        query={query}
        columns={userColumns({ withTenant: false })}
        rowKey={(user) => user.id}
        label={texts.users}
        empty={<Empty icon={<UsersRound size={20} />} title={texts.noUsers} text={texts.noUsersText} />}
      />
      {isAdding && <AddUserDialog tenant={tenant.slug} onClose={() => setAdding(false)} />}
    </div>
  );
}
