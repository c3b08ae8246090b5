// Routes and what stands around them. A page is added in its own folder, and named here once.
import { QueryClientProvider } from "@tanstack/react-query";
import { createRouter, RouterProvider } from "@tanstack/react-router";
import { queryClient } from "./api/query-client";
import { Messages } from "./frame/Messages";
import { PageError } from "./frame/PageError";
import { NotFound } from "./frame/NotFound";
import { framedRoute, homeRoute, operatorRoute, otherRoute, rootRoute } from "./frame/routes";
import { accountRoute } from "./pages/account/route";
import { effectRoute } from "./pages/effect/route";
import { effectsRoute } from "./pages/effects/route";
import { jobRoute } from "./pages/job/route";
import { jobsRoute } from "./pages/jobs/route";
import { operateRoute } from "./pages/operate/route";
import { allJobsRoute } from "./pages/operate-jobs/route";
import { workersRoute } from "./pages/operate-workers/route";
import { runRoute } from "./pages/run/route";
import { runsRoute } from "./pages/runs/route";
import { shareRoute } from "./pages/share/route";
import { signInRoute } from "./pages/sign-in/route";
import { newTaskRoute } from "./pages/tasks-new/route";

const routeTree = rootRoute.addChildren([
  homeRoute,
  signInRoute,
  shareRoute,
  framedRoute.addChildren([effectsRoute, effectRoute, jobsRoute, jobRoute, runsRoute, runRoute, newTaskRoute, accountRoute, operatorRoute.addChildren([operateRoute, allJobsRoute, workersRoute]), otherRoute]),
]);

const router = createRouter({
  routeTree,
  context: { queryClient },
  defaultPreload: "intent",
  defaultPreloadStaleTime: 0,
  defaultErrorComponent: PageError,
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
});

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
