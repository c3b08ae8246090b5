import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { whole } from "@/parts/search-params";

export interface LedgerSearch {
  /** Default: the latest audit. */
  audit?: number;
}

export const ledgerRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/ledger",
  validateSearch: (search: Record<string, unknown>): LedgerSearch => ({
    audit: whole(search.audit),
  }),
  component: lazyRouteComponent(() => import("./LedgerPage"), "LedgerPage"),
});
