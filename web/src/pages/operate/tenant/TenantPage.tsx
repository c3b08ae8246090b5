import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Building2 } from "lucide-react";
import { hasStatus } from "@/api/problems";
import { Empty, Skeleton, Tabs } from "@/design";
import { LinkButton } from "@/parts/LinkButton";
import { Pending } from "@/parts/Pending";
import { useTitle } from "@/parts/useTitle";
import { budgetsTexts, spendingTexts } from "@/texts/budgets";
import { tenantTexts as texts } from "@/texts/tenants";
import { BudgetsTab } from "./budgets/BudgetsTab";
import { QuotaForm } from "./QuotaForm";
import { quotasQuery, tenantQuery, weightQuery } from "./queries";
import { SpendingTab } from "./spending/SpendingTab";
import { TenantFiguresRow } from "./TenantFiguresRow";
import { TenantHead } from "./TenantHead";
import { TenantUsers } from "./TenantUsers";
import { TenantWallet } from "./TenantWallet";
import { WeightForm } from "./WeightForm";

export function TenantPage() {
  const { id } = useParams({ from: "/framed/operator/operate/tenants/$id" });
  const { tab = "users" } = useSearch({ from: "/framed/operator/operate/tenants/$id" });
  const navigate = useNavigate({ from: "/operate/tenants/$id" });
  const { data: tenant, error, refetch } = useQuery(tenantQuery(id));
  useTitle(tenant?.name ?? texts.back);
  if (hasStatus(error, 404) || hasStatus(error, 422)) {
    const back = <LinkButton to="/operate/tenants">{texts.back}</LinkButton>;
    return <Empty isPage icon={<Building2 size={20} />} title={texts.notFound} action={back} />;
  }
  if (!tenant) return <Pending query={{ error, refetch }} className="h-64" />;
  return (
    <>
      <TenantHead tenant={tenant} />
      <TenantFiguresRow id={id} />
      <Tabs
        label={texts.tabs}
        value={tab}
        onChange={(value) => void navigate({ search: value === "users" ? {} : { tab: value }, replace: true })}
        tabs={[
          { value: "users", label: texts.users, content: <TenantUsers tenant={tenant} /> },
          { value: "wallet", label: texts.wallet, content: <TenantWallet tenant={tenant} /> },
          { value: "limits", label: texts.limits, content: <Limits id={id} /> },
          { value: "budgets", label: budgetsTexts.tab, content: <BudgetsTab tenant={tenant} /> },
          { value: "spending", label: spendingTexts.tab, content: <SpendingTab tenant={id} /> },
        ]}
      />
    </>
  );
}

function Limits({ id }: { id: string }) {
  const weight = useQuery(weightQuery(id));
  const quotas = useQuery(quotasQuery(id));
  return (
    <div className="grid max-w-4xl gap-8">
      {weight.data ? <WeightForm id={id} weight={weight.data} /> : <Skeleton className="h-40" />}
      {quotas.data ? <QuotaForm id={id} quotas={quotas.data} /> : <Skeleton className="h-64" />}
    </div>
  );
}
