import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { fieldReason } from "@/api/problems";
import type { Schemas } from "@/api/types";
import { Button, Field, Input } from "@/design";
import { notifyDone, notifyError } from "@/parts/notify";
import { useRole } from "@/parts/useRole";
import { commonTexts } from "@/texts/common";
import { quotaTexts as texts } from "@/texts/tenants";
import { changesOf, QUOTAS, type QuotaDraft, type QuotaName, shownQuota } from "./quotas";

export function QuotaForm({ id, quotas }: { id: string; quotas: Schemas["TenantQuotas"] }) {
  const [draft, setDraft] = useState<QuotaDraft>({});
  const { mayOperate } = useRole();
  const save = useSave(id, () => setDraft({}));
  const { changes, problems } = changesOf(quotas, draft);
  const isChanged = Object.keys(changes).length > 0 || Object.keys(problems).length > 0;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (Object.keys(problems).length === 0) save.mutate(changes);
  };
  const own = (name: QuotaName) => quotas.changed[name];
  const text = (name: QuotaName) => draft[name] ?? (own(name) === undefined ? "" : shownQuota(name, own(name) ?? 0));
  return (
    <section>
      <h2>{texts.title}</h2>
      <p className="mb-4 text-muted">{texts.text}</p>
      <form onSubmit={submit} className="panel grid gap-5 p-5" noValidate>
        <div className="grid items-start gap-5 sm:grid-cols-2 lg:grid-cols-3">
          {QUOTAS.map((name) => (
            <Field
              key={name}
              label={texts.fields[name]}
              hint={own(name) === undefined ? texts.standard(shownQuota(name, quotas.limits[name])) : texts.own}
              error={problems[name] ?? fieldReason(save.error, name)}
            >
              <Input
                value={text(name)}
                disabled={!mayOperate}
                placeholder={shownQuota(name, quotas.limits[name])}
                onChange={(event) => setDraft({ ...draft, [name]: event.target.value })}
              />
            </Field>
          ))}
        </div>
        {mayOperate && (
          <Button
            type="submit"
            look={isChanged ? "go" : "plain"}
            className="justify-self-start"
            busy={save.isPending}
            disabled={!isChanged}
          >
            {commonTexts.save}
          </Button>
        )}
      </form>
    </section>
  );
}

function useSave(id: string, onSaved: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas["ChangeQuotas"]) =>
      data(api.PATCH("/api/admin/tenants/{tenant_id}/quotas", { params: { path: { tenant_id: id } }, body })),
    onSuccess: (saved) => {
      client.setQueryData(keys.tenantQuotas(id), saved);
      onSaved();
      void notifyDone(texts.saved);
    },
    onError: (error) => notifyError(error),
  });
}
