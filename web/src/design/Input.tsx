import type { ComponentProps } from "react";
import { classes } from "./classes";
import { useFieldProps } from "./Field";

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input className={classes("control", className)} {...useFieldProps()} {...rest} />;
}
