import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { meQuery } from "@/api/queries";
import { PageHead, Tabs } from "@/design";
import { useTitle } from "@/parts/useTitle";
import { accountTexts } from "@/texts/account";
import { AppearanceTab } from "./AppearanceTab";
import { KeysTab } from "./KeysTab";
import { SecurityTab } from "./SecurityTab";
import { WalletTab } from "./WalletTab";
import { WebhooksTab } from "./webhooks/WebhooksTab";

export function AccountPage() {
  useTitle(accountTexts.title);
  const { tab = "wallet" } = useSearch({ from: "/framed/account" });
  const navigate = useNavigate({ from: "/account" });
  const me = useQuery(meQuery);
  return (
    // The width limit keeps the lines of a list readable.
    <div className="max-w-4xl 2xl:max-w-6xl">
      <PageHead title={accountTexts.title} text={me.data?.email} />
      <Tabs
        label={accountTexts.tabs}
        value={tab}
        onChange={(value) => void navigate({ search: value === "wallet" ? {} : { tab: value }, replace: true })}
        tabs={[
          { value: "wallet", label: accountTexts.wallet, content: <WalletTab /> },
          { value: "keys", label: accountTexts.keys, content: <KeysTab /> },
          { value: "webhooks", label: accountTexts.webhooks, content: <WebhooksTab /> },
          { value: "security", label: accountTexts.security, content: <SecurityTab /> },
          { value: "appearance", label: accountTexts.appearance, content: <AppearanceTab /> },
        ]}
      />
    </div>
  );
}
