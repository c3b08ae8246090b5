import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { operatorRoute } from "@/frame/routes";
import { validAuditSearch } from "./filters";

export const auditRoute = createRoute({
  getParentRoute: () => operatorRoute,
  path: "/operate/audit",
  validateSearch: validAuditSearch,
  component: lazyRouteComponent(() => import("./AuditPage"), "AuditPage"),
});
