import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { effectQuery } from "@/api/queries";
import { framedRoute } from "@/frame/routes";
import { text } from "@/parts/search-params";

interface EffectSearch {
  /** The job whose values and input fill the form. */
  from?: string;
  /** Leaves the input of that job out, so the user chooses another file. */
  other_file?: true;
  /** The form with lists of values. */
  several?: true;
}

export const effectRoute = createRoute({
  getParentRoute: () => framedRoute,
  path: "/effects/$slug",
  validateSearch: (search: Record<string, unknown>): EffectSearch => ({
    from: text(search.from),
    other_file: search.other_file ? true : undefined,
    several: search.several ? true : undefined,
  }),
  loader: ({ context, params }) => void context.queryClient.prefetchQuery(effectQuery(params.slug)),
  component: lazyRouteComponent(() => import("./EffectPage"), "EffectPage"),
});
