import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { explain, fieldReason } from "@/api/problems";
import { Button, Dialog, Field, Input, Select } from "@/design";
import { notifyDone } from "@/parts/notify";
import { slugOf } from "@/parts/slugs";
import { poolsQuery } from "@/parts/tenant/queries";
import { tenantsTexts as texts } from "@/texts/tenants";

const ANY = "*";

export function CreateTenantDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [slug, setSlug] = useState<string | null>(null);
  const [pool, setPool] = useState(ANY);
  const pools = useQuery(poolsQuery);
  const create = useCreateTenant();
  const chosenSlug = slug ?? slugOf(name);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate({ name: name.trim(), slug: chosenSlug, pool: pool === ANY ? null : pool });
  };
  const reasons = {
    name: fieldReason(create.error, "name"),
    slug: fieldReason(create.error, "slug"),
    pool: fieldReason(create.error, "pool"),
  };
  const choices = [
    { value: ANY, label: texts.anyPool },
    ...(pools.data ?? []).map((each) => ({
      value: each.name,
      label: texts.poolOption(each.name, each.tenants, each.is_available),
    })),
  ];
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={texts.createTitle}>
      <form onSubmit={submit} className="grid gap-4" noValidate>
        <Field label={texts.name} hint={texts.nameHint} error={reasons.name}>
          <Input value={name} maxLength={200} autoFocus onChange={(event) => setName(event.target.value)} />
        </Field>
        <Field label={texts.slug} hint={texts.slugHint} error={reasons.slug}>
          <Input value={chosenSlug} maxLength={63} onChange={(event) => setSlug(event.target.value)} />
        </Field>
        <Field label={texts.pool} hint={texts.poolHint} error={reasons.pool}>
          <Select value={pool} choices={choices} onChange={setPool} />
        </Field>
        {create.error && !Object.values(reasons).some(Boolean) && (
          <p role="alert" className="text-s text-bad">
            {explain(create.error)}
          </p>
        )}
        <Button type="submit" look="go" busy={create.isPending} disabled={!name.trim() || !chosenSlug}>
          {texts.create}
        </Button>
      </form>
    </Dialog>
  );
}

function useCreateTenant() {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: (body: { name: string; slug: string; pool: string | null }) =>
      data(api.POST("/api/admin/tenants", { body })),
    onSuccess: async (tenant) => {
      void notifyDone(texts.created(tenant.name));
      await client.invalidateQueries({ queryKey: keys.allTenants });
      await navigate({ to: "/operate/tenants/$id", params: { id: tenant.id } });
    },
  });
}
