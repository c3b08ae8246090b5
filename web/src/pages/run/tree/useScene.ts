import { useMemo, useSyncExternalStore } from "react";
import { useTheme } from "@/parts/theme";
import type { Run, TreeNode } from "../queries";
import type { Look, Scene } from "./draw";
import { layOut } from "./layout";
import { bucketOf, MIDDLE, palette, shapeOf, spreadOf, winnersOf } from "./looks";
import { Grid } from "./visible";

const MAX_WINNERS = 3;
// A phone is taller than wide.
const PHONE_RATIO = 0.6;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const phone = window.matchMedia("(max-width: 600px)");

/** Content of the drawing, independent of the visible window. */
export function useScene(run: Run, nodes: readonly TreeNode[]): Omit<Scene, "selected" | "imageOf"> {
  const look = useLook();
  const steps = run.steps.length;
  const basesInFlight = run.steps[0]?.in_flight ?? 0;
  const placed = useMemo(() => {
    const layout = layOut(nodes, steps, basesInFlight, phone.matches ? PHONE_RATIO : undefined);
    return { layout, grid: new Grid(layout) };
  }, [nodes, steps, basesInFlight]);
  const looks = useMemo(() => {
    const winners = winnersOf(nodes, steps, MAX_WINNERS);
    const spread = spreadOf(nodes);
    return {
      shapes: placed.layout.placed.map(({ node }) => shapeOf(node, node !== null && winners.has(node.id))),
      buckets: placed.layout.placed.map(({ node }) => (node ? bucketOf(node.elo, spread) : MIDDLE)),
    };
  }, [nodes, placed, steps]);
  const names = run.steps.map(({ step }) => step.name).join("\n");
  return useMemo(() => ({ ...placed, ...looks, look, stepNames: names.split("\n") }), [placed, looks, look, names]);
}

function useLook(): Look {
  const theme = useTheme();
  const isDark = useSyncExternalStore(
    (listener) => {
      dark.addEventListener("change", listener);
      return () => dark.removeEventListener("change", listener);
    },
    () => dark.matches,
  );
  return useMemo(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    return {
      ratings: palette(colour("--run"), colour("--line-strong"), colour("--accent")),
      panel: colour("--panel"),
      hover: colour("--hover"),
      line: colour("--line-strong"),
      muted: colour("--muted"),
      text: colour("--text"),
      accent: colour("--accent"),
      font: colour("--font"),
    };
    // The design tokens change with the theme.
  }, [theme, isDark]);
}
