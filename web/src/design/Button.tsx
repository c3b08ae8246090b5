import { LoaderCircle } from "lucide-react";
import { Slot } from "radix-ui";
import type { ComponentProps, ReactNode } from "react";
import { classes } from "./classes";

type Look = "go" | "plain" | "quiet" | "danger";

const LOOKS: Record<Look, string> = {
  go: "bg-accent text-accent-ink border-transparent hover:bg-accent-hover",
  plain: "bg-panel text-text border-line hover:bg-hover",
  quiet: "bg-transparent text-muted border-transparent hover:bg-hover hover:text-text",
  danger: "bg-panel text-bad border-line hover:bg-bad-soft hover:border-bad",
};
const SIZES = {
  s: "text-s px-2.5 min-h-8 touch:min-h-10 gap-1.5",
  m: "text-m px-3.5 min-h-9 touch:min-h-11 gap-2",
  l: "text-l px-5 min-h-11 gap-2",
  icon: "size-9 shrink-0 touch:size-11",
};

interface Props extends ComponentProps<"button"> {
  look?: Look;
  size?: keyof typeof SIZES;
  icon?: ReactNode;
  /** A busy button cannot be pressed again and keeps its width. */
  busy?: boolean;
  /** The child becomes the button, for example a link. */
  asChild?: boolean;
}

export function Button({
  look = "plain",
  size = "m",
  icon,
  busy = false,
  asChild,
  className,
  children,
  disabled,
  ...rest
}: Props) {
  const style = classes(
    "inline-flex items-center justify-center rounded-s border font-[550] whitespace-nowrap select-none",
    "transition-colors duration-100 disabled:opacity-50 active:translate-y-px",
    LOOKS[look],
    SIZES[size],
    className,
  );
  if (asChild) {
    return (
      <Slot.Root className={style} {...rest}>
        {children}
      </Slot.Root>
    );
  }
  return (
    <button type="button" className={style} disabled={disabled || busy} aria-busy={busy || undefined} {...rest}>
      {busy ? <LoaderCircle size={16} className="animate-spin" aria-hidden /> : icon}
      {children}
    </button>
  );
}
