import { Command } from "cmdk";
import type { ReactNode } from "react";

interface GroupProps {
  heading: string;
  children: ReactNode;
  /** Found by the server, so not filtered by what is typed. */
  forceMount?: boolean;
}

export function PaletteGroup({ heading, children, forceMount }: GroupProps) {
  return (
    <Command.Group
      heading={heading}
      forceMount={forceMount}
      className="[&_[cmdk-group-heading]]:px-2.5 [&_[cmdk-group-heading]]:pt-2.5 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:text-xs [&_[cmdk-group-heading]]:text-muted"
    >
      {children}
    </Command.Group>
  );
}

interface ItemProps {
  value: string;
  icon: ReactNode;
  onSelect: () => void;
  children: ReactNode;
  forceMount?: boolean;
}

export function PaletteItem({ value, icon, onSelect, children, forceMount }: ItemProps) {
  return (
    <Command.Item
      value={value}
      onSelect={onSelect}
      forceMount={forceMount}
      className="flex min-h-9 cursor-default items-center gap-2.5 rounded-s px-2.5 select-none touch:min-h-11 data-[selected=true]:bg-hover [&>svg]:shrink-0 [&>svg]:text-muted"
    >
      {icon}
      {children}
    </Command.Item>
  );
}
