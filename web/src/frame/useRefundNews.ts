// Says so when tokens come back, whatever page is open.
import { useNavigate, useRouterState } from "@tanstack/react-router";
import { useCallback } from "react";
import { api, data } from "@/api/client";
import { useJobEvents } from "@/api/live";
import type { JobEvent } from "@/api/types";
import { formatTokens } from "@/design/Tokens";
import { notify } from "@/parts/notify";
import { frameTexts } from "@/texts/frame";

const NEWEST = 50;

export function useRefundNews(): void {
  const navigate = useNavigate();
  const path = useRouterState({ select: (state) => state.location.pathname });
  useJobEvents(
    useCallback(
      (event: JobEvent) => {
        const status = event.to_status;
        if (status !== "failed" && status !== "expired" && status !== "canceled") return;
        // A hidden tab would only repeat it.
        if (document.visibilityState === "visible") void tell(event.job_id, frameTexts.cameBackFrom[status]);
      },
      [path],
    ),
  );
  const tell = async (id: string, why: string) => {
    // From the wallet and not from the job: a canceled job may have spent some of its tokens.
    const page = await data(api.GET("/api/wallet/transactions", { params: { query: { limit: NEWEST } } })).catch(() => null);
    const refund = page?.items.find((each) => each.type === "JOB_REFUND" && each.job_id === id);
    if (!refund || refund.amount <= 0) return;
    const action = path === `/jobs/${id}` ? undefined : { label: frameTexts.showJob, onClick: () => void navigate({ to: "/jobs/$id", params: { id } }) };
    void notify(frameTexts.cameBack(formatTokens(refund.amount)), { id: `refund-${id}`, description: why, action });
  };
}
