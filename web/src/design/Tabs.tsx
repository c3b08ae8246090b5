import { Tabs as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { useRevealed } from "./useRevealed";

interface Tab<Value extends string> {
  value: Value;
  label: ReactNode;
  content: ReactNode;
}

interface Props<Value extends string> {
  /** The page keeps the tab in the URL, so a link can open it. */
  value: Value;
  onChange: (value: Value) => void;
  tabs: readonly Tab<Value>[];
  label: string;
}

export function Tabs<Value extends string>({ value, onChange, tabs, label }: Props<Value>) {
  const list = useRevealed<HTMLDivElement>("[data-state=active]", value);
  return (
    <Radix.Root value={value} onValueChange={(chosen) => onChange(chosen as Value)}>
      <Radix.List ref={list} aria-label={label} className="flex overflow-x-auto sm:gap-1 border-b">
        {tabs.map((tab) => (
          <Radix.Trigger
            key={tab.value}
            value={tab.value}
            className="-mb-px min-h-10 border-b-2 border-transparent px-2.5 whitespace-nowrap touch:min-h-11 sm:px-3 text-muted transition-colors duration-100 hover:text-text focus-visible:outline-offset-[-2px] data-[state=active]:border-accent data-[state=active]:font-[550] data-[state=active]:text-text"
          >
            {tab.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((tab) => (
        <Radix.Content key={tab.value} value={tab.value} className="pt-6">
          {tab.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}
