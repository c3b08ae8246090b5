import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { ScrollText } from "lucide-react";
import { Empty, PageHead } from "@/design";
import { PagedTable } from "@/parts/PagedTable";
import { useTitle } from "@/parts/useTitle";
import { auditTexts as texts } from "@/texts/audit";
import { AuditFilters } from "./AuditFilters";
import { COLUMNS } from "./columns";
import { hasFilters } from "./filters";
import { auditLogQuery } from "./queries";

export function AuditPage() {
  useTitle(texts.title);
  const search = useSearch({ from: "/framed/operator/operate/audit" });
  const query = useInfiniteQuery(auditLogQuery(search));
  const isFiltered = hasFilters(search);
  return (
    <>
      <PageHead title={texts.title} text={texts.text} />
      {/* The key creates the filters again when a link in the list or the back button changes the URL. */}
      <AuditFilters key={JSON.stringify(search)} search={search} />
      <PagedTable
        query={query}
        columns={COLUMNS}
        rowKey={(entry) => entry.id}
        label={texts.list}
        empty={
          <Empty
            icon={<ScrollText size={20} />}
            title={isFiltered ? texts.notFound : texts.none}
            text={isFiltered ? texts.notFoundText : texts.noneText}
          />
        }
      />
    </>
  );
}
