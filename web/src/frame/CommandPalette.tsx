import { lazy, Suspense, useEffect } from "react";

const load = () => import("./PaletteDialog");
const Palette = lazy(load);
const QUIET_MS = 2_000;

export interface PaletteProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  onKeys: () => void;
}

/** The code loads after the page has settled, so no key press right after the shortcut is lost. */
export function CommandPalette(props: PaletteProps) {
  useEffect(() => {
    // Without a connection the code loads when the palette is opened.
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
