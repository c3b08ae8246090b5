import { type CSSProperties, lazy, Suspense, useEffect, useState } from "react";
import { onFirstMessage } from "@/parts/notify";
import { useTheme } from "@/parts/theme";

const Toaster = lazy(async () => ({ default: (await import("sonner")).Toaster }));

const LOOK = {
  "--normal-bg": "var(--panel)",
  "--normal-border": "var(--line)",
  "--normal-text": "var(--text)",
  "--border-radius": "var(--radius-m)",
  fontFamily: "var(--font)",
} as CSSProperties;

export function Messages() {
  const [isNeeded, setNeeded] = useState(false);
  const theme = useTheme();
  useEffect(() => onFirstMessage(() => setNeeded(true)), []);
  if (!isNeeded) return null;
  return (
    <Suspense fallback={null}>
      <Toaster
        theme={theme}
        position="bottom-right"
        mobileOffset={{ bottom: 72 }}
        closeButton
        style={LOOK}
        toastOptions={{ className: "num" }}
      />
    </Suspense>
  );
}
