import { createLink } from "@tanstack/react-router";
import type { ComponentProps } from "react";
import { Button } from "@/design/Button";

type Props = ComponentProps<"a"> & Pick<ComponentProps<typeof Button>, "look" | "size">;

/** A link that looks like a button. */
export const LinkButton = createLink(({ look, size, className, ...link }: Props) => (
  <Button asChild look={look} size={size} className={className}>
    <a {...link} />
  </Button>
));
