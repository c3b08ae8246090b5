import { Link } from "@tanstack/react-router";
import { Coins } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Badge, Button, PageHead, Time } from "@/design";
import { BackLink } from "@/parts/BackLink";
import { JobsLink } from "@/parts/JobsLink";
import { LinkButton } from "@/parts/LinkButton";
import { useRole } from "@/parts/useRole";
import { UserState } from "@/parts/user/columns";
import { rolesOf } from "@/parts/user/roles";
import type { Movement } from "@/parts/wallet/owners";
import { TokensDialog } from "@/parts/wallet/TokensDialog";
import { roleTexts, userTexts as texts } from "@/texts/users";
import { DisableDialog } from "./DisableDialog";
import { ResetDialog } from "./ResetDialog";
import { RoleDialog } from "./RoleDialog";
import { UserMenu } from "./UserMenu";

export type UserQuestion = Movement | "role" | "reset" | "disable";

export function UserHead({ user }: { user: Schemas["User"] }) {
  const [question, setQuestion] = useState<UserQuestion | null>(null);
  const { me, mayOperate } = useRole();
  // The server refuses changes of the own account, and of users with a role that this operator cannot give.
  const mayChange =
    me !== undefined && me.user_id !== user.id && rolesOf(me.role).includes(user.role) && !user.deleted_at;
  const mayMove = mayOperate && !user.deleted_at;
  const close = () => setQuestion(null);
  return (
    <>
      <PageHead
        title={user.email}
        above={
          <BackLink to="/operate/users" label={texts.back}>
            <UserState user={user} />
            <Badge shape={false}>{roleTexts[user.role]}</Badge>
          </BackLink>
        }
        text={
          <>
            {user.name && `${user.name}, `}
            {texts.in}{" "}
            <Link
              to="/operate/tenants/$id"
              params={{ id: user.tenant_id }}
              className="underline decoration-line-strong underline-offset-3 hover:text-text hover:decoration-text"
            >
              {user.tenant}
            </Link>
            , {texts.created} <Time at={user.created_at} />
          </>
        }
        actions={
          <>
            {mayMove && (
              <Button look="go" icon={<Coins size={16} />} onClick={() => setQuestion("credit")}>
                {texts.credit}
              </Button>
            )}
            <JobsLink search={{ user: user.id }} />
            {me?.role !== "tenant_admin" && (
              <LinkButton to="/operate/audit" search={{ type: "user", subject: user.id }}>
                {texts.auditLog}
              </LinkButton>
            )}
            {(mayMove || mayChange) && (
              <UserMenu user={user} mayMove={mayMove} mayChange={mayChange} onQuestion={setQuestion} />
            )}
          </>
        }
      />
      {(question === "credit" || question === "debit") && (
        <TokensDialog
          owner={{ kind: "user", id: user.id, name: user.email, tenant: user.tenant_id }}
          kind={question}
          onClose={close}
        />
      )}
      {question === "role" && <RoleDialog user={user} onClose={close} />}
      {question === "reset" && <ResetDialog user={user} onClose={close} />}
      {question === "disable" && <DisableDialog user={user} onClose={close} />}
    </>
  );
}
