import { Checkbox } from "@/design";
import { Refusal } from "@/parts/Refusal";
import { keyTexts } from "@/texts/account";

/** The rights of a key. Each can be given without the others. */
export function ScopeChoice<Scope extends string>({
  scopes,
  value,
  onChange,
  error,
  hints,
}: {
  scopes: readonly Scope[];
  value: readonly Scope[];
  onChange: (scopes: Scope[]) => void;
  error: string | null;
  hints: Record<string, string>;
}) {
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1.5 text-s font-[550]">{keyTexts.scopes}</legend>
      {scopes.map((scope) => (
        <label
          key={scope}
          className="flex min-h-11 cursor-pointer items-center gap-3 rounded-s border px-3 py-2 hover:bg-hover has-checked:border-accent"
        >
          <Checkbox
            checked={value.includes(scope)}
            onChange={(event) =>
              onChange(event.target.checked ? [...value, scope] : value.filter((each) => each !== scope))
            }
          />
          <span>
            <span className="font-[550]">{keyTexts.scopeNames[scope]}</span>
            <span className="block text-s text-muted">{hints[scope]}</span>
          </span>
        </label>
      ))}
      <Refusal error={value.length === 0 ? keyTexts.needsScope : error} />
    </fieldset>
  );
}
