import { Command } from "cmdk";
import type { ReactNode } from "react";

export function PaletteGroup({ heading, children }: { heading: string; children: ReactNode }) {
  return (
    <Command.Group
      heading={heading}
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
  /** The server found this entry by the typed text, so the entry matches whatever words it shows. */
  found?: string;
}

export function PaletteItem({ value, icon, onSelect, children, found }: ItemProps) {
  return (
    <Command.Item
      value={value}
      onSelect={onSelect}
      keywords={found === undefined ? undefined : [found]}
      className="flex min-h-9 cursor-default items-center gap-2.5 rounded-s px-2.5 select-none touch:min-h-11 data-[selected=true]:bg-hover [&>svg]:shrink-0 [&>svg]:text-muted"
    >
      {icon}
      {children}
    </Command.Item>
  );
}
