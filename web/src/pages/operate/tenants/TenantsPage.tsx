import { useInfiniteQuery, useQueries } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Building2, Plus } from "lucide-react";
import { useCallback, useState } from "react";
import { Button, Empty, PageHead } from "@/design";
import { PagedTable } from "@/parts/PagedTable";
import { SearchField } from "@/parts/SearchField";
import { figuresQuery, type TenantFigures, tenantsQuery } from "@/parts/tenant/queries";
import { useRole } from "@/parts/useRole";
import { useTitle } from "@/parts/useTitle";
import { tenantsTexts as texts } from "@/texts/tenants";
import { CreateTenantDialog } from "./CreateTenantDialog";
import { columnsOf } from "./columns";

export function TenantsPage() {
  useTitle(texts.title);
  const { q = "" } = useSearch({ from: "/framed/operator/operate/tenants" });
  const navigate = useNavigate({ from: "/operate/tenants" });
  const [isCreating, setCreating] = useState(false);
  const { mayOperate } = useRole();
  const query = useInfiniteQuery(tenantsQuery(q));
  const figures = useFigures(query.data?.pages.map((page) => page.items.map((tenant) => tenant.id)) ?? []);
  const search = useCallback(
    (words: string) => void navigate({ search: { q: words || undefined }, replace: true }),
    [navigate],
  );
  return (
    <>
      <PageHead
        title={texts.title}
        text={texts.text}
        actions={
          mayOperate && (
            <Button look="go" icon={<Plus size={16} />} onClick={() => setCreating(true)}>
              {texts.create}
            </Button>
          )
        }
      />
      <SearchField value={q} onChange={search} label={texts.search} className="mb-4 max-w-md" />
      <PagedTable
        query={query}
        columns={columnsOf(figures)}
        rowKey={(tenant) => tenant.id}
        label={texts.list}
        empty={
          <Empty
            icon={<Building2 size={20} />}
            title={q ? texts.notFound : texts.none}
            text={q ? texts.notFoundText : texts.noneText}
          />
        }
      />
      {isCreating && <CreateTenantDialog onClose={() => setCreating(false)} />}
    </>
  );
}

/** Figures by tenant id. Each page of the list has its own request. */
function useFigures(pages: readonly (readonly string[])[]): ReadonlyMap<string, TenantFigures> {
  const found = useQueries({ queries: pages.map((ids) => figuresQuery(ids)) });
  return new Map(found.flatMap(({ data }) => data ?? []).map((each) => [each.tenant_id, each]));
}
