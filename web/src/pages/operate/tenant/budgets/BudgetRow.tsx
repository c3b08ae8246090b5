import { Ellipsis, Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import { Button, Menu, MenuItem } from "@/design";
import { BudgetBar } from "@/parts/budget/BudgetBar";
import { BudgetState } from "@/parts/budget/BudgetState";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { notifyDone } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import { budgetsTexts as texts } from "@/texts/budgets";
import { ChangeBudgetDialog } from "./ChangeBudgetDialog";
import type { Budget } from "./queries";
import { subjectOf } from "./subject";

export function BudgetRow({ tenant, budget, mayChange }: { tenant: string; budget: Budget; mayChange: boolean }) {
  const [dialog, setDialog] = useState<"change" | "delete" | null>(null);
  const isWarned = budget.warned_at != null;
  const isReached = budget.reached_at != null || budget.left === 0;
  return (
    <li className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-6 gap-y-3 px-4 py-3.5 lg:grid-cols-[minmax(0,1.2fr)_minmax(260px,1fr)_minmax(130px,auto)_auto]">
      <span className="min-w-0">
        <span className="block font-[550] [overflow-wrap:anywhere]">{budget.name}</span>
        <span className="block text-s text-muted [overflow-wrap:anywhere]">{subjectOf(budget)}</span>
      </span>
      <span className="max-lg:order-1 max-lg:col-span-2">
        <BudgetBar budget={budget} isWarned={isWarned} isReached={isReached} />
      </span>
      <span className="max-lg:order-2 lg:justify-self-end">
        <BudgetState isWarned={isWarned} isReached={isReached} />
      </span>
      {mayChange && (
        <Menu
          trigger={
            <Button size="icon" look="quiet" aria-label={texts.actions(budget.name)} icon={<Ellipsis size={16} />} />
          }
        >
          <MenuItem icon={<Pencil size={15} aria-hidden />} onSelect={() => setDialog("change")}>
            {texts.change}
          </MenuItem>
          <MenuItem danger icon={<Trash2 size={15} aria-hidden />} onSelect={() => setDialog("delete")}>
            {texts.delete}
          </MenuItem>
        </Menu>
      )}
      {dialog === "change" && <ChangeBudgetDialog tenant={tenant} budget={budget} onClose={() => setDialog(null)} />}
      {dialog === "delete" && <DeleteDialog tenant={tenant} budget={budget} onClose={() => setDialog(null)} />}
    </li>
  );
}

function DeleteDialog({ tenant, budget, onClose }: { tenant: string; budget: Budget; onClose: () => void }) {
  const remove = useSave({
    mutationFn: () =>
      api.DELETE("/api/admin/tenants/{tenant_id}/budgets/{budget_id}", {
        params: { path: { tenant_id: tenant, budget_id: budget.id } },
      }),
    changes: [keys.tenantBudgets(tenant)],
    onSuccess: () => notifyDone(texts.wasDeleted(budget.name)),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      danger
      title={texts.deleteTitle(budget.name)}
      text={texts.deleteText}
      action={texts.delete}
      keep={texts.keep}
      busy={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    />
  );
}
