import { lazy, Suspense } from "react";
import type { Tone } from "./Badge";
import { Skeleton } from "./Skeleton";

export interface ChartLine {
  label: string;
  values: readonly (number | null)[];
  tone: Tone;
  /** Dashed lines can be distinguished without colour. */
  isDashed?: boolean;
  /** For values of another unit than the chart's: they are drawn against an axis of their own, on the right. */
  format?: (value: number) => string;
}

export interface ChartProps {
  /** What the chart shows, for people who do not see it. */
  label: string;
  /** Seconds since 1970. */
  times: readonly number[];
  lines: readonly ChartLine[];
  format: (value: number) => string;
  height?: number;
}

const Drawing = lazy(() => {
  giveValidLanguage();
  return import("./ChartDrawing");
});

/** Chromium under LANG=C has the language "en-US@posix", which is none, and uPlot cannot be loaded with it. */
function giveValidLanguage(): void {
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
  }
}

/** Lines over time. The code that draws comes when the first chart is shown. */
export function Chart(props: ChartProps) {
  return (
    <Suspense
      fallback={
        <div style={{ height: props.height ?? CHART_HEIGHT }}>
          <Skeleton className="h-full" />
        </div>
      }
    >
      <Drawing {...props} />
    </Suspense>
  );
}

export const CHART_HEIGHT = 160;
