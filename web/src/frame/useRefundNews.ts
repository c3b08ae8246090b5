// Notifies the user of returned tokens on any page.
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
  const notifyOfRefund = useCallback(
    async (id: string, why: string) => {
      const amount = await refundOf(id);
      if (amount <= 0) return;
      const action =
        path === `/jobs/${id}`
          ? undefined
          : { label: frameTexts.showJob, onClick: () => void navigate({ to: "/jobs/$id", params: { id } }) };
      void notify(frameTexts.cameBack(formatTokens(amount)), { id: `refund-${id}`, description: why, action });
    },
    [navigate, path],
  );
  useJobEvents(
    useCallback(
      (event: JobEvent) => {
        const status = event.to_status;
        if (status !== "failed" && status !== "expired" && status !== "canceled") return;
        // A hidden tab would repeat the message of the visible one.
        if (document.visibilityState === "visible") void notifyOfRefund(event.job_id, frameTexts.cameBackFrom[status]);
      },
      [notifyOfRefund],
    ),
  );
}

/** Tokens that the wallet got back for a job. A canceled job may have spent some, so this can be less than its price. */
async function refundOf(id: string): Promise<number> {
  const page = await data(api.GET("/api/wallet/transactions", { params: { query: { limit: NEWEST } } })).catch(
    () => null,
  );
  return page?.items.find((each) => each.type === "JOB_REFUND" && each.job_id === id)?.amount ?? 0;
}
