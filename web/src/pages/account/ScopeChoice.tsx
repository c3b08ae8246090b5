import { Check } from "lucide-react";
import type { Schemas } from "@/api/types";
import { keyTexts } from "@/texts/account";

type Scope = Schemas["KeyScope"];

/** The rights of a key. Each can be given without the others. */
export function ScopeChoice({
  value,
  onChange,
  canAdminister,
}: {
  value: readonly Scope[];
  onChange: (scopes: Scope[]) => void;
  canAdminister: boolean;
}) {
  const scopes: Scope[] = canAdminister ? ["read", "submit", "admin"] : ["read", "submit"];
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1.5 text-s font-[550]">{keyTexts.scopes}</legend>
      {scopes.map((scope) => (
        <label
          key={scope}
          className="flex min-h-11 cursor-pointer items-center gap-3 rounded-s border px-3 py-2 hover:bg-hover has-checked:border-accent"
        >
          <input
            type="checkbox"
            className="peer sr-only"
            checked={value.includes(scope)}
            onChange={(event) =>
              onChange(event.target.checked ? [...value, scope] : value.filter((each) => each !== scope))
            }
          />
          <span
            aria-hidden
            className="grid size-4.5 shrink-0 place-items-center rounded-[5px] border border-line-strong text-transparent peer-checked:border-accent peer-checked:bg-accent peer-checked:text-accent-ink peer-focus-visible:outline-2 peer-focus-visible:outline-offset-2 peer-focus-visible:outline-accent"
          >
            <Check size={13} strokeWidth={3} />
          </span>
          <span>
            <span className="font-[550]">{keyTexts.scopeNames[scope]}</span>
            <span className="block text-s text-muted">{keyTexts.scopeHints[scope]}</span>
          </span>
        </label>
      ))}
      {value.length === 0 && (
        <p role="alert" className="text-s text-bad">
          {keyTexts.needsScope}
        </p>
      )}
    </fieldset>
  );
}
