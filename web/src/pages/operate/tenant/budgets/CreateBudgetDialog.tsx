import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Field, Input, Segments } from "@/design";
import { ChoiceFilter } from "@/parts/ChoiceFilter";
import { FormDialog } from "@/parts/form/FormDialog";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { useSave } from "@/parts/useAction";
import { useDebounced } from "@/parts/useDebounced";
import { usersQuery } from "@/parts/user/queries";
import { budgetsTexts as texts } from "@/texts/budgets";
import { commonTexts } from "@/texts/common";
import { keyChoicesQuery } from "./queries";
import { limitOf } from "./subject";

const PERIODS = ["day", "week", "month"] as const;
const SETTLE_MS = 250;
const EMPTY = {
  name: "",
  limit: "",
  period: "month" as Schemas["BudgetPeriod"],
  time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  user_id: "",
  key_id: undefined as string | undefined,
  provider: "",
};

export function CreateBudgetDialog({ tenant, onClose }: { tenant: Schemas["Tenant"]; onClose: () => void }) {
  const create = useCreate(tenant.id, onClose);
  const form = useForm({
    saved: EMPTY,
    save: create,
    body: (values): Schemas["CreateBudget"] => ({
      name: values.name.trim(),
      limit: limitOf(values.limit) ?? 0,
      period: values.period,
      time_zone: values.time_zone.trim(),
      user_id: user?.id,
      key_id: key?.id,
      provider: values.provider.trim() || undefined,
    }),
    check: ({ limit }) => ({ limit: limit.trim() !== "" && limitOf(limit) === null && texts.limitProblem }),
  });
  const { values, set } = form;
  const typed = values.user_id.trim().toLowerCase();
  const search = useDebounced(typed, SETTLE_MS);
  const users = useInfiniteQuery(usersQuery(search, tenant.slug));
  const found = users.data?.pages.flatMap((page) => page.items) ?? [];
  const user = typed ? found.find((each) => each.email.toLowerCase() === typed) : undefined;
  const isUnknown = typed !== "" && !user && search === typed && !users.isFetching;
  const choices = useQuery(keyChoicesQuery(tenant.id, user?.id ?? null));
  // A key of another user is not a choice any more.
  const key = choices.data?.find(({ id }) => id === values.key_id);
  const [emails, zones] = [useId(), useId()];
  const field = { form, autoComplete: "off" };
  return (
    <FormDialog
      wide
      form={form}
      title={texts.createTitle}
      text={texts.createText}
      action={texts.create}
      disabled={!values.name.trim() || !values.limit.trim() || (typed !== "" && !user)}
      cancel={commonTexts.cancel}
      onClose={onClose}
    >
      <div className="grid items-start gap-4 sm:grid-cols-2">
        <FormField {...field} name="name" label={texts.name} hint={texts.nameHint} autoFocus maxLength={200} required />
        <FormField {...field} name="limit" label={texts.limit} inputMode="numeric" maxLength={24} required />
        <Field label={texts.period}>
          <Segments
            label={texts.period}
            value={values.period}
            choices={PERIODS.map((value) => ({ value, label: texts.periods[value] }))}
            onChange={(period) => set({ period })}
            className="w-full *:grow"
          />
        </Field>
        <FormField
          {...field}
          name="time_zone"
          label={texts.zone}
          hint={texts.zoneHint}
          list={zones}
          spellCheck={false}
          maxLength={64}
        />
        <Field
          label={texts.user}
          hint={texts.userHint}
          error={isUnknown ? texts.userProblem : form.reasonOf("user_id")}
        >
          <Input
            value={values.user_id}
            list={emails}
            autoComplete="off"
            spellCheck={false}
            maxLength={254}
            onChange={(event) => set({ user_id: event.target.value })}
          />
        </Field>
        <Field label={texts.key} hint={user ? undefined : texts.keyHint} error={form.reasonOf("key_id")}>
          <ChoiceFilter
            label={texts.key}
            any={texts.anyKey}
            className="w-full"
            value={key?.id}
            choices={(choices.data ?? []).map(({ id, name, prefix }) => ({ value: id, label: `${name} (${prefix}…)` }))}
            onChange={(key_id) => set({ key_id })}
          />
        </Field>
        <FormField
          {...field}
          name="provider"
          label={texts.provider}
          hint={texts.providerHint}
          spellCheck={false}
          maxLength={63}
        />
      </div>
      <datalist id={emails}>
        {found.map(({ id, email }) => (
          <option key={id} value={email} />
        ))}
      </datalist>
      <datalist id={zones}>
        {Intl.supportedValuesOf("timeZone").map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
    </FormDialog>
  );
}

function useCreate(tenant: string, onDone: () => void) {
  return useSave({
    mutationFn: (body: Schemas["CreateBudget"]) =>
      data(api.POST("/api/admin/tenants/{tenant_id}/budgets", { params: { path: { tenant_id: tenant } }, body })),
    changes: [keys.tenantBudgets(tenant)],
    onSuccess: ({ name }) => notifyDone(texts.created(name)),
    onDone,
  });
}
