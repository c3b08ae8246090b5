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
import { shareTexts as texts } from "@/texts/tenants";
import { changesOf, type ShareDraft } from "./share";

export function ShareForm({ id, share }: { id: string; share: Schemas["TenantWeight"] }) {
  const [draft, setDraft] = useState<ShareDraft>({});
  const { mayOperate } = useRole();
  const save = useSave(id, () => setDraft({}));
  const { changes, problems } = changesOf(share, draft);
  const isChanged = Object.keys(changes).length > 0 || Object.keys(problems).length > 0;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (Object.keys(problems).length === 0) save.mutate(changes);
  };
  const text = (name: keyof ShareDraft) => draft[name] ?? (share[name] == null ? "" : String(share[name]));
  const reason = (name: keyof ShareDraft) => problems[name] ?? fieldReason(save.error, name);
  const input = (name: keyof ShareDraft) => (
    <Input
      inputMode="decimal"
      value={text(name)}
      disabled={!mayOperate}
      placeholder={name === "weight" ? "1" : texts.unlimited}
      onChange={(event) => setDraft({ ...draft, [name]: event.target.value })}
    />
  );
  return (
    <section>
      <h2>{texts.title}</h2>
      <p className="mb-4 text-muted">
        {texts.text} {texts.running(share.running)}
      </p>
      <form onSubmit={submit} className="panel grid gap-5 p-5" noValidate>
        <div className="grid items-start gap-5 sm:grid-cols-3">
          <Field label={texts.weight} hint={texts.weightHint} error={reason("weight")}>
            {input("weight")}
          </Field>
          <Field label={texts.maxRunning} hint={texts.emptyHint} error={reason("max_running")}>
            {input("max_running")}
          </Field>
          <Field label={texts.maxRunningPerUser} hint={texts.emptyHint} error={reason("max_running_per_user")}>
            {input("max_running_per_user")}
          </Field>
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
    mutationFn: (body: Schemas["ChangeTenantWeight"]) =>
      data(api.PATCH("/api/admin/tenants/{tenant_id}/share", { params: { path: { tenant_id: id } }, body })),
    onSuccess: (saved) => {
      client.setQueryData(keys.tenantShare(id), saved);
      onSaved();
      void notifyDone(texts.saved);
    },
    onError: (error) => notifyError(error),
  });
}
