import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { Button } from "@/design";
import { FormField } from "@/parts/form/FormField";
import { useForm } from "@/parts/form/useForm";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { commonTexts } from "@/texts/common";

interface Props<Name extends string, Changes extends object, Saved> {
  title: string;
  text: string;
  /** Message after a save. */
  done: string;
  saved: Record<Name, string>;
  fields: readonly { name: Name; label: string; hint: string; placeholder: string }[];
  /** Reads the texts of the form: the changed numbers, and the reasons why a text is not valid. */
  changesOf: (texts: Record<Name, string>) => { changes: Changes; problems: Partial<Record<Name, string>> };
  send: (changes: Changes) => Promise<Saved>;
  /** The query with the saved numbers. */
  queryKey: QueryKey;
}

/** Numbers of a tenant that an operator can change. */
export function LimitsForm<Name extends string, Changes extends object, Saved>({
  title,
  text,
  done,
  saved,
  fields,
  changesOf,
  send,
  queryKey,
}: Props<Name, Changes, Saved>) {
  const { mayOperate } = useRole();
  const client = useQueryClient();
  const form = useForm({
    saved,
    save: useAction({
      mutationFn: (changes: object) => send(changes as Changes),
      onSuccess: (numbers) => {
        client.setQueryData(queryKey, numbers);
        void notifyDone(done);
      },
    }),
    body: (values) => changesOf(values).changes,
    check: (values) => changesOf(values).problems,
  });
  const isChanged = !form.isValid || Object.keys(changesOf(form.values).changes).length > 0;
  return (
    <section>
      <h2>{title}</h2>
      <p className="mb-4 text-muted">{text}</p>
      <form onSubmit={form.submit} className="panel grid gap-5 p-5" noValidate>
        <div className="grid items-start gap-5 sm:grid-cols-2 lg:grid-cols-3">
          {fields.map((field) => (
            <FormField key={field.name} form={form} inputMode="decimal" disabled={!mayOperate} {...field} />
          ))}
        </div>
        {mayOperate && (
          <Button
            type="submit"
            look={isChanged ? "go" : "plain"}
            className="justify-self-start"
            busy={form.isBusy}
            disabled={!isChanged}
          >
            {commonTexts.save}
          </Button>
        )}
      </form>
    </section>
  );
}
