import { createContext, type ReactNode, useContext, useId } from "react";
import { commonTexts } from "@/texts/common";
import { classes } from "./classes";

interface FieldIds {
  id: string;
  described: string | undefined;
  invalid: boolean;
  required: boolean;
}
const Ids = createContext<FieldIds | null>(null);

/** The ids that connect a control inside a Field with its label, hint and error. */
export function useFieldProps() {
  const ids = useContext(Ids);
  if (ids === null) return {};
  return {
    id: ids.id,
    "aria-describedby": ids.described,
    "aria-invalid": ids.invalid || undefined,
    "aria-required": ids.required || undefined,
  };
}

interface Props {
  label: ReactNode;
  hint?: ReactNode;
  /** The reason from the API or from a check in the page. */
  error?: string | null;
  /** Content beside the label, for example a counter or a value. */
  aside?: ReactNode;
  required?: boolean;
  className?: string;
  children: ReactNode;
}

export function Field({ label, hint, error, aside, required = false, className, children }: Props) {
  const id = useId();
  const described = error ? `${id}-error` : hint ? `${id}-hint` : undefined;
  return (
    <div className={classes("grid gap-1.5", className)}>
      <div className="flex items-baseline justify-between gap-3">
        <label htmlFor={id} className="text-s font-[550]">
          {label}
          {required && <span className="text-muted font-normal"> · {commonTexts.required}</span>}
        </label>
        {aside !== undefined && <span className="text-xs text-muted num">{aside}</span>}
      </div>
      <Ids value={{ id, described, invalid: Boolean(error), required }}>{children}</Ids>
      {error ? (
        <p id={`${id}-error`} className="text-s text-bad" role="alert">
          {error}
        </p>
      ) : (
        hint !== undefined && (
          <p id={`${id}-hint`} className="text-s text-muted">
            {hint}
          </p>
        )
      )}
    </div>
  );
}
