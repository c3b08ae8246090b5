import { lazy, Suspense } from "react";
import type { Tone } from "./Badge";
import { Skeleton } from "./Skeleton";

export interface ChartLine {
  label: string;
  values: readonly (number | null)[];
  tone: Tone;
  /** A reader can distinguish dashed lines without colour. */
  isDashed?: boolean;
  /** This line has a unit of its own. It is drawn against a second axis on the right. */
  format?: (value: number) => string;
}

export interface ChartProps {
  /** Content of the chart in words, for people who cannot see it. */
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

/**
 * Chromium under LANG=C has the language "en-US@posix". It is not a valid language, and uPlot fails to load with it.
 */
function giveValidLanguage(): void {
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
  }
}

/** Lines over time. The drawing code loads with the first chart. */
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
