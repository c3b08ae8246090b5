import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { UserPlus, UsersRound, X } from "lucide-react";
import { useCallback, useState } from "react";
import { Button, Empty, PageHead, Segments } from "@/design";
import { seesOperate } from "@/frame/navigation";
import { PagedTable } from "@/parts/PagedTable";
import { SearchField } from "@/parts/SearchField";
import { useRole } from "@/parts/useRole";
import { AddUserDialog } from "@/parts/user/AddUserDialog";
import { userColumns } from "@/parts/user/columns";
import { usersQuery } from "@/parts/user/queries";
import { useTitle } from "@/parts/useTitle";
import { usersTexts as texts } from "@/texts/users";
import { InvitationList } from "./InvitationList";
import { MailList } from "./MailList";
import { USER_VIEWS } from "./route";

export function UsersPage() {
  useTitle(texts.title);
  const { q = "", tenant, view = "users" } = useSearch({ from: "/framed/operator/operate/users" });
  const navigate = useNavigate({ from: "/operate/users" });
  const [isAdding, setAdding] = useState(false);
  const { me, mayManageUsers } = useRole();
  // These lists belong to the whole installation, so tenant admins do not see them.
  const seesMails = me !== undefined && seesOperate(me.role);
  const search = useCallback(
    (words: string) => void navigate({ search: (before) => ({ ...before, q: words || undefined }), replace: true }),
    [navigate],
  );
  return (
    <>
      <PageHead
        title={texts.title}
        text={texts.text}
        actions={
          mayManageUsers && (
            <Button look="go" icon={<UserPlus size={16} />} onClick={() => setAdding(true)}>
              {texts.add}
            </Button>
          )
        }
      />
      <div className="mb-4 flex flex-wrap items-center gap-3">
        {view === "users" && (
          <SearchField
            value={q}
            onChange={search}
            label={texts.search}
            className="min-w-52 grow basis-64 lg:max-w-md"
          />
        )}
        {view === "users" && tenant && (
          <Button
            size="s"
            aria-label={texts.clearTenant}
            onClick={() => void navigate({ search: (before) => ({ ...before, tenant: undefined }) })}
          >
            {texts.ofTenant(tenant)}
            <X size={14} aria-hidden />
          </Button>
        )}
        <Segments
          label={texts.viewLabel}
          value={view}
          choices={USER_VIEWS.filter((value) => value !== "mails" || seesMails).map((value) => ({
            value,
            label: texts.views[value],
          }))}
          onChange={(chosen) =>
            void navigate({
              search: (before) => ({ ...before, view: chosen === "users" ? undefined : chosen }),
              replace: true,
            })
          }
        />
      </div>
      {view === "users" ? (
        <UserList search={q} tenant={tenant} />
      ) : view === "mails" ? (
        <MailList />
      ) : (
        <InvitationList />
      )}
      {isAdding && <AddUserDialog tenant={tenant} onClose={() => setAdding(false)} />}
    </>
  );
}

function UserList({ search, tenant }: { search: string; tenant: string | undefined }) {
  const query = useInfiniteQuery(usersQuery(search, tenant));
  return (
    <PagedTable
      query={query}
      columns={userColumns({ withTenant: true })}
      rowKey={(user) => user.id}
      label={texts.list}
      empty={
        <Empty
          icon={<UsersRound size={20} />}
          title={search ? texts.notFound : texts.none}
          text={search ? texts.notFoundText : texts.noneText}
        />
      }
    />
  );
}
