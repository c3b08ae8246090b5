import { DropdownMenu } from "radix-ui";
import type { ReactNode } from "react";
import { classes } from "./classes";

interface Props {
  /** The button that opens the menu. */
  trigger: ReactNode;
  children: ReactNode;
  align?: "start" | "end";
  defaultOpen?: boolean;
}

export function Menu({ trigger, children, align = "end", defaultOpen }: Props) {
  return (
    <DropdownMenu.Root defaultOpen={defaultOpen}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align={align}
          sideOffset={6}
          collisionPadding={8}
          className="appear z-50 min-w-44 rounded-m border bg-panel p-1 shadow-high"
        >
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

interface ItemProps {
  onSelect: () => void;
  icon?: ReactNode;
  danger?: boolean;
  disabled?: boolean;
  children: ReactNode;
}

export function MenuItem({ onSelect, icon, danger = false, disabled, children }: ItemProps) {
  return (
    <DropdownMenu.Item
      onSelect={onSelect}
      disabled={disabled}
      className={classes(
        "flex min-h-8 touch:min-h-11 cursor-default items-center gap-2.5 rounded-s px-2.5 outline-none select-none data-disabled:opacity-50",
        danger ? "text-bad data-highlighted:bg-bad-soft" : "data-highlighted:bg-hover",
      )}
    >
      {icon}
      {children}
    </DropdownMenu.Item>
  );
}

export function MenuLine() {
  return <DropdownMenu.Separator className="my-1 h-px bg-line" />;
}
