import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ScrollText } from "lucide-react";
import { useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Badge, Button, Dialog, PageHead, Time } from "@/design";
import { BackLink } from "@/parts/BackLink";
import { JobsLink } from "@/parts/JobsLink";
import { notifyDone, notifyError } from "@/parts/notify";
import { useRole } from "@/parts/useRole";
import { tenantsTexts, tenantTexts as texts } from "@/texts/tenants";

type Tenant = Schemas["Tenant"];

export function TenantHead({ tenant }: { tenant: Tenant }) {
  const [isConfirming, setConfirming] = useState(false);
  const { mayOperate, me } = useRole();
  const change = useSwitch(tenant, () => setConfirming(false));
  const isDisabled = Boolean(tenant.disabled_at);
  return (
    <>
      <PageHead
        title={tenant.name}
        above={
          <BackLink to="/operate/tenants" label={texts.back}>
            {isDisabled ? (
              <Badge tone="bad">{tenantsTexts.disabled}</Badge>
            ) : (
              <Badge tone="ok">{tenantsTexts.active}</Badge>
            )}
          </BackLink>
        }
        text={
          <>
            {texts.details(tenant.slug, tenant.pool)}, {texts.created} <Time at={tenant.created_at} />
          </>
        }
        actions={
          me?.role !== "tenant_admin" && (
            <>
              <JobsLink search={{ tenant: tenant.id }} />
              <Button asChild>
                <Link to="/operate/audit" search={{ tenant: tenant.id }}>
                  <ScrollText size={16} aria-hidden />
                  {texts.auditLog}
                </Link>
              </Button>
              {mayOperate &&
                (isDisabled ? (
                  <Button busy={change.isPending} onClick={() => change.mutate("enable")}>
                    {texts.enable}
                  </Button>
                ) : (
                  <Button look="danger" onClick={() => setConfirming(true)}>
                    {texts.disable}
                  </Button>
                ))}
            </>
          )
        }
      />
      <Dialog
        open={isConfirming}
        onOpenChange={setConfirming}
        title={texts.disableTitle(tenant.name)}
        text={texts.disableText}
        actions={
          <>
            <Button onClick={() => setConfirming(false)}>{texts.keep}</Button>
            <Button look="danger" busy={change.isPending} onClick={() => change.mutate("disable")}>
              {texts.disable}
            </Button>
          </>
        }
      />
    </>
  );
}

function useSwitch(tenant: Tenant, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (action: "disable" | "enable") =>
      api.POST(
        action === "disable" ? "/api/admin/tenants/{tenant_id}/disable" : "/api/admin/tenants/{tenant_id}/enable",
        { params: { path: { tenant_id: tenant.id } } },
      ),
    onSuccess: (_, action) =>
      notifyDone(action === "disable" ? texts.wasDisabled(tenant.name) : texts.wasEnabled(tenant.name)),
    onError: (error) => notifyError(error),
    onSettled: async () => {
      await client.invalidateQueries({ queryKey: keys.allTenants });
      onDone();
    },
  });
}
