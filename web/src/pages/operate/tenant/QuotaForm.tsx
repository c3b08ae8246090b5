import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { quotaTexts as texts } from "@/texts/tenants";
import { LimitsForm } from "./LimitsForm";
import { changesOf, QUOTAS, shownQuota, textsOf } from "./quotas";

export function QuotaForm({ id, quotas }: { id: string; quotas: Schemas["TenantQuotas"] }) {
  const fields = QUOTAS.map((name) => {
    const inForce = shownQuota(name, quotas.limits[name]);
    const hint = quotas.changed[name] === undefined ? texts.standard(inForce) : texts.own;
    return { name, label: texts.fields[name], hint, placeholder: inForce };
  });
  return (
    <LimitsForm
      title={texts.title}
      text={texts.text}
      done={texts.saved}
      saved={textsOf(quotas)}
      fields={fields}
      changesOf={(draft) => changesOf(quotas, draft)}
      send={(body) =>
        data(api.PATCH("/api/admin/tenants/{tenant_id}/quotas", { params: { path: { tenant_id: id } }, body }))
      }
      queryKey={keys.tenantQuotas(id)}
    />
  );
}
