import type { ComponentProps } from "react";
import { classes } from "./classes";
import { useFieldProps } from "./Field";

/** A field that grows with its text. */
export function Textarea({ className, rows = 3, ...rest }: ComponentProps<"textarea">) {
  return (
    <textarea
      rows={rows}
      className={classes("control min-h-19 field-sizing-content resize-y leading-relaxed max-h-96", className)}
      {...useFieldProps()}
      {...rest}
    />
  );
}
