import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { formatNumber } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import { budgetsTexts as texts } from "@/texts/budgets";
import { commonTexts } from "@/texts/common";
import type { Budget } from "./queries";
import { limitOf } from "./subject";

export function ChangeBudgetDialog(props: { tenant: string; budget: Budget; onClose: () => void }) {
  const { tenant, budget, onClose } = props;
  const form = useForm({
    saved: { name: budget.name, limit: formatNumber(budget.limit) },
    save: useSave({
      mutationFn: (body: Schemas["ChangeBudget"]) =>
        data(
          api.PATCH("/api/admin/tenants/{tenant_id}/budgets/{budget_id}", {
            params: { path: { tenant_id: tenant, budget_id: budget.id } },
            body,
          }),
        ),
      changes: [keys.tenantBudgets(tenant)],
      onSuccess: ({ name }) => notifyDone(texts.changed(name)),
      onDone: onClose,
    }),
    body: ({ name, limit }, changes): Schemas["ChangeBudget"] => ({
      ...(changes.name === undefined ? {} : { name: name.trim() }),
      ...(changes.limit === undefined ? {} : { limit: limitOf(limit) }),
    }),
    check: ({ limit }) => ({ limit: limitOf(limit) === null && texts.limitProblem }),
  });
  return (
    <FormDialog
      form={form}
      title={texts.changeTitle(budget.name)}
      text={texts.changeText}
      action={commonTexts.save}
      disabled={!form.isChanged || !form.values.name.trim()}
      cancel={commonTexts.cancel}
      onClose={onClose}
    >
      <FormField form={form} name="name" label={texts.name} autoComplete="off" maxLength={200} />
      <FormField form={form} name="limit" label={texts.limit} inputMode="numeric" autoComplete="off" maxLength={24} />
    </FormDialog>
  );
}
