import { Braces, Undo2 } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "@/design";
import { formTexts } from "@/texts/form";
import type { Shared } from "./fields";
import { TextField } from "./TextField";
import { useTemplates } from "./templates";

interface Props {
  name: string;
  shared: Shared;
  value: unknown;
  /** `undefined` restores the default. */
  onChange: (value: string | undefined) => void;
  /** The field for a fixed value. */
  children: ReactNode;
}

/** A field for a number, a choice or a switch. Its value may also be a variable. */
export function Templatable({ name, shared, value, onChange, children }: Props) {
  const templates = useTemplates();
  if (templates === null) return children;
  const isTemplate = templates.isTemplate(value);
  const label = isTemplate ? formTexts.ownValue(shared.label) : formTexts.fromVariable(shared.label);
  return (
    <div className="flex items-start gap-2">
      <div className="min-w-0 grow">
        {isTemplate ? <TextField {...shared} isLine value={value} onChange={onChange} /> : children}
      </div>
      <Button
        look="quiet"
        size="icon"
        className="mt-[26px]"
        aria-label={label}
        title={label}
        onClick={() => onChange(isTemplate ? undefined : templates.placeholder(name))}
        icon={isTemplate ? <Undo2 size={16} /> : <Braces size={16} />}
      />
    </div>
  );
}
