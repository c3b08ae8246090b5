// All routes. Each page lives in its own folder and is listed here once.
import { QueryClientProvider } from "@tanstack/react-query";
import { createRouter, RouterProvider } from "@tanstack/react-router";
import { queryClient } from "./api/query-client";
import { Messages } from "./frame/Messages";
import { NotFound } from "./frame/NotFound";
import { PageError } from "./frame/PageError";
import { PagePending } from "./frame/PagePending";
import { framedRoute, homeRoute, operatorRoute, otherRoute, rootRoute } from "./frame/routes";
import { accountRoute } from "./pages/account/route";
import { batchRoute } from "./pages/batch/route";
import { batchesRoute } from "./pages/batches/route";
import { effectRoute } from "./pages/effect/route";
import { effectsRoute } from "./pages/effects/route";
import { jobRoute } from "./pages/job/route";
import { jobsRoute } from "./pages/jobs/route";
import { assetsRoute } from "./pages/operate/assets/route";
import { auditRoute } from "./pages/operate/audit/route";
import { effectRecordRoute } from "./pages/operate/effect/route";
import { effectRecordsRoute } from "./pages/operate/effects/route";
import { fleetRoute } from "./pages/operate/fleet/route";
import { fleetsRoute } from "./pages/operate/fleets/route";
import { healthRoute } from "./pages/operate/health/route";
import { operatorJobRoute } from "./pages/operate/job/route";
import { allJobsRoute } from "./pages/operate/jobs/route";
import { ledgerRoute } from "./pages/operate/ledger/route";
import { operateRoute } from "./pages/operate/overview/route";
import { providersRoute } from "./pages/operate/providers/route";
import { settingsRoute } from "./pages/operate/settings/route";
import { tenantRoute } from "./pages/operate/tenant/route";
import { tenantsRoute } from "./pages/operate/tenants/route";
import { userRoute } from "./pages/operate/user/route";
import { usersRoute } from "./pages/operate/users/route";
import { workerRoute } from "./pages/operate/worker/route";
import { workersRoute } from "./pages/operate/workers/route";
import { workflowRoute } from "./pages/operate/workflow/route";
import { workflowsRoute } from "./pages/operate/workflows/route";
import { newPipelineRoute, pipelineRoute } from "./pages/pipeline/route";
import { pipelinesRoute } from "./pages/pipelines/route";
import { runRoute } from "./pages/run/route";
import { runsRoute } from "./pages/runs/route";
import { shareRoute } from "./pages/share/route";
import { signInRoute } from "./pages/sign-in/route";
import { newTaskRoute } from "./pages/tasks-new/route";
import { rememberList } from "./parts/list-search";

const operatorPages = [
  operateRoute,
  allJobsRoute,
  operatorJobRoute,
  workersRoute,
  workerRoute,
  fleetsRoute,
  fleetRoute,
  workflowsRoute,
  workflowRoute,
  effectRecordsRoute,
  effectRecordRoute,
  assetsRoute,
  tenantsRoute,
  tenantRoute,
  usersRoute,
  userRoute,
  providersRoute,
  auditRoute,
  ledgerRoute,
  settingsRoute,
  healthRoute,
] as const;

const routeTree = rootRoute.addChildren([
  homeRoute,
  signInRoute,
  shareRoute,
  framedRoute.addChildren([
    effectsRoute,
    effectRoute,
    jobsRoute,
    jobRoute,
    batchesRoute,
    batchRoute,
    runsRoute,
    runRoute,
    newTaskRoute,
    pipelinesRoute,
    newPipelineRoute,
    pipelineRoute,
    accountRoute,
    operatorRoute.addChildren(operatorPages),
    otherRoute,
  ]),
]);

const router = createRouter({
  routeTree,
  context: { queryClient },
  defaultPreload: "intent",
  defaultPreloadStaleTime: 0,
  defaultErrorComponent: PageError,
  defaultNotFoundComponent: NotFound,
  defaultPendingComponent: PagePending,
  // A page that opens sooner shows no skeleton, so nothing flashes on a fast network.
  defaultPendingMs: 300,
  scrollRestoration: true,
});

router.subscribe("onResolved", ({ toLocation }) => rememberList(toLocation.pathname, toLocation.search));

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
      <Messages />
    </QueryClientProvider>
  );
}
