import { classes } from "./classes";

interface Props {
  /** 0 to 100; null if it is unknown. */
  percent: number | null;
  label: string;
  /** A limit that is nearly or completely used. */
  tone?: keyof typeof TONES;
}

const TONES = { run: "bg-run", warn: "bg-warn", bad: "bg-bad" };

export function Progress({ percent, label, tone = "run" }: Props) {
  const shown = percent === null ? null : Math.min(100, Math.max(0, percent));
  return (
    <div
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={shown ?? undefined}
      className="h-1.5 overflow-hidden rounded-full bg-line"
    >
      {shown === null ? (
        <div className="h-full w-1/3 animate-[indeterminate_1.4s_ease-in-out_infinite] rounded-full bg-run" />
      ) : (
        <div
          className={classes("h-full rounded-full transition-[width] duration-200", TONES[tone])}
          style={{ width: `${shown}%` }}
        />
      )}
    </div>
  );
}
