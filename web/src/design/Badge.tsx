import type { ReactNode } from "react";
import { classes } from "./classes";

export type Tone = "plain" | "ok" | "warn" | "bad" | "run";

// Each tone has its own shape, for people who cannot see the colour.
const SHAPES: Record<Tone, ReactNode> = {
  plain: <rect x="1" y="3.25" width="6" height="1.5" fill="currentColor" />,
  ok: (
    <path
      d="m1 4.2 2 2 4-4.4"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.7"
      strokeLinecap="round"
      strokeLinejoin="round"
    />
  ),
  warn: <circle cx="4" cy="4" r="3" fill="none" stroke="currentColor" strokeWidth="1.5" />,
  bad: <rect x="0.9" y="0.9" width="6.2" height="6.2" rx="1" fill="currentColor" />,
  run: <circle cx="4" cy="4" r="3.4" fill="currentColor" />,
};
const TONES: Record<Tone, string> = {
  plain: "text-muted bg-hover",
  ok: "text-ok bg-ok-soft",
  warn: "text-warn bg-warn-soft",
  bad: "text-bad bg-bad-soft",
  run: "text-run bg-run-soft",
};

export function Badge({
  tone = "plain",
  shape = true,
  children,
}: {
  tone?: Tone;
  shape?: boolean;
  children: ReactNode;
}) {
  return (
    <span
      className={classes(
        "inline-flex items-center gap-1.5 rounded-full px-2.5 py-0.5 text-xs font-[550] whitespace-nowrap",
        TONES[tone],
      )}
    >
      {shape && (
        <svg viewBox="0 0 8 8" width="8" height="8" aria-hidden="true">
          {SHAPES[tone]}
        </svg>
      )}
      {children}
    </span>
  );
}
