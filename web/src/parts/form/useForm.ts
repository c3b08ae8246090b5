import { type FormEvent, useRef, useState } from "react";
import { fieldReason } from "@/api/problems";
import { same } from "@/parts/workflow/exact";

/** The request of a form, as useSave returns it. */
interface Save<Body> {
  mutate: (body: Body, options?: { onSuccess?: () => void; onSettled?: () => void }) => void;
  reset: () => void;
  error: Error | null;
  isPending: boolean;
}

interface Options<Values, Body> {
  /** Values before the first change. Fields have the names of the API, so a refusal finds its field. */
  saved: Values;
  save: Save<Body>;
  /** The request for these values. */
  body: (values: Values, changes: Partial<Values>) => Body;
  /** Reasons why the page does not send the form, per field. */
  check?: (values: Values) => { [Name in keyof Values]?: string | null | false };
  /** Further names of the API whose reasons the page shows. */
  fields?: readonly string[];
}

/** The values of a form from the first change until they are saved, and the reasons why the API refused them. */
export function useForm<Values extends object, Body>({ saved, save, body, check, fields = [] }: Options<Values, Body>) {
  const [edited, setEdited] = useState<Partial<Values>>({});
  const isSent = useRef(false);
  const values: Values = { ...saved, ...edited };
  const names = Object.keys(values) as (keyof Values & string)[];
  const changes = Object.fromEntries(
    names.filter((name) => !same(saved[name], values[name])).map((name) => [name, values[name]]),
  ) as Partial<Values>;
  const problems: Record<string, string | null | false | undefined> = check?.(values) ?? {};
  const isValid = !Object.values(problems).some(Boolean);
  return {
    values,
    changes,
    isChanged: Object.keys(changes).length > 0,
    isValid,
    isBusy: save.isPending,
    set: (part: Partial<Values>) => setEdited((now) => ({ ...now, ...part })),
    discard: () => {
      save.reset();
      setEdited({});
    },
    /** A refusal belongs to the values that were sent. */
    forget: () => save.error && save.reset(),
    reasonOf: (name: string) => problems[name] || fieldReason(save.error, name),
    /** The refusal, unless a field shows its reason. */
    refusal: [...names, ...fields].some((name) => fieldReason(save.error, name)) ? null : save.error,
    submit: (event?: FormEvent) => {
      event?.preventDefault();
      // A second press can come before the busy button is drawn.
      if (!isValid || isSent.current) return;
      isSent.current = true;
      save.mutate(body(values, changes), {
        onSuccess: () => setEdited({}),
        onSettled: () => {
          isSent.current = false;
        },
      });
    },
  };
}

export type Form<Values extends object> = ReturnType<typeof useForm<Values, never>>;
