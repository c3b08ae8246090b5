import { useQuery } from "@tanstack/react-query";
import { Plug } from "lucide-react";
import { Empty, PageHead } from "@/design";
import { Pending } from "@/parts/Pending";
import { useTitle } from "@/parts/useTitle";
import { providersTexts as texts } from "@/texts/providers";
import { LimitList } from "./LimitList";
import { ProviderCard } from "./ProviderCard";
import { providersQuery } from "./queries";
import { SpendTable } from "./SpendTable";

export function ProvidersPage() {
  useTitle(texts.title);
  return (
    <>
      <PageHead title={texts.title} text={texts.text} />
      <div className="grid grid-cols-[minmax(0,1fr)] gap-8">
        <ProviderList />
        <SpendTable />
        <LimitList />
      </div>
    </>
  );
}

function ProviderList() {
  const { data: providers, error, refetch } = useQuery(providersQuery);
  if (!providers) return <Pending query={{ error, refetch }} className="h-40" />;
  if (providers.length === 0) {
    return (
      <div className="panel">
        <Empty icon={<Plug size={20} />} title={texts.none} text={texts.noneText} />
      </div>
    );
  }
  return (
    <ul aria-label={texts.list} className="grid gap-4 lg:grid-cols-2">
      {providers.map((provider) => (
        <li key={provider.name}>
          <ProviderCard provider={provider} />
        </li>
      ))}
    </ul>
  );
}
