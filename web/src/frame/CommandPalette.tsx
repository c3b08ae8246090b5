import { lazy, Suspense, useEffect } from "react";

const load = () => import("./PaletteDialog");
const Palette = lazy(load);
const QUIET_MS = 2_000;

export interface PaletteProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  onKeys: () => void;
}

/** Its code comes after the page has settled, so that what is typed right after the keys is not lost. */
export function CommandPalette(props: PaletteProps) {
  useEffect(() => {
    // Without a connection it comes when it is opened.
    const timer = setTimeout(() => void load().catch(() => undefined), QUIET_MS);
    return () => clearTimeout(timer);
  }, []);
  if (!props.open) return null;
  return (
    <Suspense fallback={null}>
      <Palette {...props} />
    </Suspense>
  );
}
