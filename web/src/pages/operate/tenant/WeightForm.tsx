import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { weightTexts as texts } from "@/texts/tenants";
import { LimitsForm } from "./LimitsForm";
import { changesOf, textsOf } from "./weight";

const UNLIMITED = { hint: texts.emptyHint, placeholder: texts.unlimited };
const FIELDS = [
  { name: "weight", label: texts.weight, hint: texts.weightHint, placeholder: "1" },
  { name: "max_running", label: texts.maxRunning, ...UNLIMITED },
  { name: "max_running_per_user", label: texts.maxRunningPerUser, ...UNLIMITED },
] as const;

export function WeightForm({ id, weight }: { id: string; weight: Schemas["TenantWeight"] }) {
  return (
    <LimitsForm
      title={texts.title}
      text={`${texts.text} ${texts.running(weight.running)}`}
      done={texts.saved}
      saved={textsOf(weight)}
      fields={FIELDS}
      changesOf={(draft) => changesOf(weight, draft)}
      send={(body) =>
        data(api.PATCH("/api/admin/tenants/{tenant_id}/share", { params: { path: { tenant_id: id } }, body }))
      }
      queryKey={keys.tenantWeight(id)}
    />
  );
}
