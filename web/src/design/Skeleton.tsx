import { classes } from "./classes";

/** A placeholder with the size of the content, so the page does not jump. */
export function Skeleton({ className }: { className?: string }) {
  return <div aria-hidden="true" className={classes("skeleton", className)} />;
}
