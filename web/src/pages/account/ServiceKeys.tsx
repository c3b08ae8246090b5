import { useInfiniteQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import type { Me, Schemas } from "@/api/types";
import { Button } from "@/design";
import { Section } from "@/parts/Section";
import { KeyTable } from "@/parts/user/KeyTable";
import { serviceKeyTexts as texts } from "@/texts/account";
import { CreateKeyDialog } from "./CreateKeyDialog";
import { serviceKeysQuery } from "./queries";

const OF_ADMIN: readonly Schemas["ServiceScope"][] = ["read", "submit_for_users"];

/** The service keys of the tenant, for its admins. */
export function ServiceKeys({ me }: { me: Me }) {
  const [isCreating, setCreating] = useState(false);
  const query = useInfiniteQuery(serviceKeysQuery(me.tenant_id));
  const params = { path: { tenant_id: me.tenant_id } };
  const create = (
    <Button onClick={() => setCreating(true)} icon={<Plus size={16} aria-hidden />}>
      {texts.create}
    </Button>
  );
  const hasKeys = query.data?.pages.some((page) => page.items.length > 0);
  return (
    <Section title={texts.title(me.tenant)}>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
        <div className="flex flex-wrap items-center justify-between gap-4">
          <p className="max-w-prose text-muted">{texts.text}</p>
          {hasKeys && create}
        </div>
        <KeyTable
          query={query}
          label={texts.list}
          none={{ title: texts.none, text: texts.noneText, action: create }}
          mayRevoke
          revoke={(id) =>
            api.DELETE("/api/admin/tenants/{tenant_id}/service-keys/{service_key_id}", {
              params: { path: { tenant_id: me.tenant_id, service_key_id: id } },
            })
          }
          changes={keys.serviceKeys(me.tenant_id)}
        />
      </div>
      {isCreating && (
        <CreateKeyDialog
          texts={texts}
          scopes={me.role === "operator" ? [...OF_ADMIN, "credit"] : OF_ADMIN}
          chosen={OF_ADMIN}
          expiry="never"
          create={(body) => data(api.POST("/api/admin/tenants/{tenant_id}/service-keys", { params, body }))}
          changes={keys.serviceKeys(me.tenant_id)}
          path="/api/tenant/jobs"
          onClose={() => setCreating(false)}
        />
      )}
    </Section>
  );
}
