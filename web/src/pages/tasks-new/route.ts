import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { actorsQuery } from "@/api/queries";
import { framedRoute } from "@/frame/routes";
import { id, text } from "@/parts/search-params";

export interface TaskSearch {
  actor?: string;
  /** One of the things that the actor can make. */
  variant?: string;
  /** The task whose result is shown. */
  job?: string;
  /** The task that fills the form. */
  from?: string;
}

export const newTaskRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/tasks/new",
  validateSearch: (search: Record<string, unknown>): TaskSearch => ({
    actor: text(search.actor),
    variant: text(search.variant),
    job: id(search.job),
    from: id(search.from),
  }),
  loader: ({ context }) => void context.queryClient.prefetchQuery(actorsQuery),
  component: lazyRouteComponent(() => import("./NewTaskPage"), "NewTaskPage"),
});
