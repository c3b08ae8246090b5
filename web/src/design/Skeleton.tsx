import { classes } from "./classes";

/** As large as what will be there, so that nothing jumps. */
export function Skeleton({ className }: { className?: string }) {
  return <div aria-hidden="true" className={classes("skeleton", className)} />;
}
