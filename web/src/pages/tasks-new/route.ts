import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { actorsQuery } from "@/api/queries";
import { framedRoute } from "@/frame/routes";

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

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** An invalid value is ignored. */
function id(value: unknown): string | undefined {
  return typeof value === "string" && ID.test(value) ? value : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value.slice(0, 100) : undefined;
}
