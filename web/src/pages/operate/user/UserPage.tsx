import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { UserRound } from "lucide-react";
import { hasStatus } from "@/api/problems";
import { Empty, Tabs } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { Pending } from "@/parts/Pending";
import { useTitle } from "@/parts/useTitle";
import { OwnedWallet } from "@/parts/wallet/OwnedWallet";
import { userTexts as texts } from "@/texts/users";
import { userQuery } from "./queries";
import { UserHead } from "./UserHead";
import { UserKeys } from "./UserKeys";
import { UserSessions } from "./UserSessions";

export function UserPage() {
  const { id } = useParams({ from: "/framed/operator/operate/users/$id" });
  const { tab = "wallet" } = useSearch({ from: "/framed/operator/operate/users/$id" });
  const navigate = useNavigate({ from: "/operate/users/$id" });
  const { data: user, error, refetch } = useQuery(userQuery(id));
  useTitle(user?.email ?? texts.back);
  if (hasStatus(error, 404) || hasStatus(error, 422)) {
    const back = <LinkButton to="/operate/users">{texts.back}</LinkButton>;
    return <Empty isPage icon={<UserRound size={20} />} title={texts.notFound} action={back} />;
  }
  if (!user) return <Pending query={{ error, refetch }} className="h-64" />;
  return (
    <div className="max-w-5xl">
      <UserHead user={user} />
      <Tabs
        label={texts.tabs}
        value={tab}
        onChange={(value) => void navigate({ search: value === "wallet" ? {} : { tab: value }, replace: true })}
        tabs={[
          {
            value: "wallet",
            label: texts.wallet,
            content: <OwnedWallet owner={{ kind: "user", id, name: user.email, tenant: user.tenant_id }} />,
          },
          { value: "keys", label: texts.keys, content: <UserKeys id={id} /> },
          { value: "sessions", label: texts.sessions, content: <UserSessions user={user} /> },
        ]}
      />
    </div>
  );
}
