import { lazy, Suspense } from "react";

const Palette = lazy(() => import("./PaletteDialog"));

export interface PaletteProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  onKeys: () => void;
}

/** Its code comes when it is opened for the first time. */
export function CommandPalette(props: PaletteProps) {
  if (!props.open) return null;
  return (
    <Suspense fallback={null}>
      <Palette {...props} />
    </Suspense>
  );
}
