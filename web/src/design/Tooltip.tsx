import { Tooltip as Radix } from "radix-ui";
import type { ReactNode } from "react";

/** The child must be focusable, or keyboard users never see the text. */
export function Tooltip({
  text,
  children,
  side = "top",
}: {
  text: ReactNode;
  children: ReactNode;
  side?: "top" | "right" | "bottom" | "left";
}) {
  return (
    <Radix.Provider delayDuration={300}>
      <Radix.Root>
        <Radix.Trigger asChild>{children}</Radix.Trigger>
        <Radix.Portal>
          <Radix.Content
            side={side}
            sideOffset={6}
            collisionPadding={8}
            className="appear z-50 max-w-xs rounded-s bg-text px-2.5 py-1.5 text-xs text-bg shadow-high"
          >
            {text}
          </Radix.Content>
        </Radix.Portal>
      </Radix.Root>
    </Radix.Provider>
  );
}
