import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";

export interface LedgerSearch {
  /** Default: the latest audit. */
  audit?: number;
}

export const ledgerRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/ledger",
  validateSearch: (search: Record<string, unknown>): LedgerSearch => ({
    audit: Number.isSafeInteger(search.audit) && Number(search.audit) > 0 ? Number(search.audit) : undefined,
  }),
  component: lazyRouteComponent(() => import("./LedgerPage"), "LedgerPage"),
});
