import { ScrollText } from "lucide-react";
import { useState } from "react";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { Badge, Button, PageHead, Time } from "@/design";
import { BackLink } from "@/parts/BackLink";
import { ConfirmDialog } from "@/parts/ConfirmDialog";
import { JobsLink } from "@/parts/JobsLink";
import { LinkButton } from "@/parts/LinkButton";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { tenantsTexts, tenantTexts as texts } from "@/texts/tenants";

type Tenant = Schemas["Tenant"];
const PATHS = {
  disable: "/api/admin/tenants/{tenant_id}/disable",
  enable: "/api/admin/tenants/{tenant_id}/enable",
} as const;

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
              <LinkButton to="/operate/audit" search={{ tenant: tenant.id }}>
                <ScrollText size={16} aria-hidden />
                {texts.auditLog}
              </LinkButton>
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
      {isConfirming && (
        <ConfirmDialog
          danger
          title={texts.disableTitle(tenant.name)}
          text={texts.disableText}
          action={texts.disable}
          keep={texts.keep}
          busy={change.isPending}
          onConfirm={() => change.mutate("disable")}
          onClose={() => setConfirming(false)}
        />
      )}
    </>
  );
}

function useSwitch(tenant: Tenant, onDone: () => void) {
  return useAction({
    mutationFn: (action: keyof typeof PATHS) => api.POST(PATHS[action], { params: { path: { tenant_id: tenant.id } } }),
    onSuccess: (_, action) =>
      notifyDone(action === "disable" ? texts.wasDisabled(tenant.name) : texts.wasEnabled(tenant.name)),
    changes: [keys.allTenants],
    onEnd: onDone,
  });
}
