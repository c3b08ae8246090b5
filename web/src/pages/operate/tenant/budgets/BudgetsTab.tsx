import { useInfiniteQuery } from "@tanstack/react-query";
import { Gauge, Plus } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/types";
import { Button, Empty } from "@/design";
import { MoreButton } from "@/parts/MoreButton";
import { Pending } from "@/parts/Pending";
import { Section } from "@/parts/Section";
import { useRole } from "@/parts/useRole";
import { budgetsTexts as texts } from "@/texts/budgets";
import { BudgetRow } from "./BudgetRow";
import { CreateBudgetDialog } from "./CreateBudgetDialog";
import { budgetsQuery } from "./queries";

/** The budgets of a tenant, with what is taken of each. */
export function BudgetsTab({ tenant }: { tenant: Schemas["Tenant"] }) {
  const [isCreating, setCreating] = useState(false);
  const { mayManageUsers: mayChange } = useRole();
  const query = useInfiniteQuery(budgetsQuery(tenant.id));
  const budgets = query.data?.pages.flatMap((page) => page.items) ?? [];
  const create = mayChange && (
    <Button icon={<Plus size={16} aria-hidden />} onClick={() => setCreating(true)}>
      {texts.create}
    </Button>
  );
  return (
    <Section title={texts.title} actions={budgets.length > 0 && create}>
      <p className="mb-4 max-w-prose text-muted">{texts.text}</p>
      {query.data === undefined ? (
        <Pending query={query} className="h-64" />
      ) : budgets.length === 0 ? (
        <div className="panel">
          <Empty icon={<Gauge size={20} />} title={texts.none} text={texts.noneText} action={create} />
        </div>
      ) : (
        <div className="grid gap-4">
          <ul className="panel divide-y" aria-label={texts.list}>
            {budgets.map((budget) => (
              <BudgetRow key={budget.id} tenant={tenant.id} budget={budget} mayChange={mayChange} />
            ))}
          </ul>
          <MoreButton query={query} />
        </div>
      )}
      {isCreating && <CreateBudgetDialog tenant={tenant} onClose={() => setCreating(false)} />}
    </Section>
  );
}
