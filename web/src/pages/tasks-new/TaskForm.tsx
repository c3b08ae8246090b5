import { useQuery } from "@tanstack/react-query";
import { Send, WandSparkles } from "lucide-react";
import { type FormEvent, useState } from "react";
import { ApiError } from "@/api/problems";
import { walletQuery } from "@/api/queries";
import { Button, Field, formatTokens, Select } from "@/design";
import { type Actor, type Payload, schemaOf, variantLabel, variantOf } from "@/parts/actors";
import { JsonField } from "@/parts/form/JsonField";
import { initialOf, type Json, type Path, type Problem, payloadOf, problemsOf, withValue } from "@/parts/form/schema";
import { ProblemPanel } from "@/parts/ProblemPanel";
import { SchemaForm } from "@/parts/SchemaForm";
import { useDraft } from "@/parts/useDraft";
import { payerOf } from "@/parts/wallet/payer";
import { effectPageTexts } from "@/texts/effect";
import { formTexts } from "@/texts/form";
import { taskTexts } from "@/texts/tasks";
import { useSubmitTask } from "./useSubmitTask";

interface Props {
  actor: Actor;
  /** Payload of an earlier task. */
  earlier: Payload | null;
  from?: string;
  variant?: string;
  onVariant: (title: string) => void;
  onSubmitted: (jobId: string) => void;
}

export function TaskForm({ actor, earlier, from, variant: wanted, onVariant, onSubmitted }: Props) {
  const variant = variantOf(actor, wanted, earlier);
  const schema = schemaOf(actor, variant);
  const start = { ...(schema ? initialOf(schema, schema) : {}), ...earlier };
  const [value, setValue] = useDraft<Json>(["task", actor.name, variant?.title, from].filter(Boolean).join(":"), start);
  const cost = variant ? variant.cost : actor.cost;
  const [isChecked, setChecked] = useState(false);
  const wallet = useQuery(walletQuery);
  const task = useSubmitTask(actor.name, onSubmitted);
  const refused = task.error instanceof ApiError ? task.error : null;
  const problems = {
    ...(isChecked && schema ? sentences(problemsOf(schema, schema, value)) : {}),
    ...refusedFields(refused),
  };
  const missing = cost != null && wallet.data ? Math.max(0, cost - wallet.data.balance) : 0;
  const payer = payerOf(wallet.data);
  const change = (path: Path, next: Json | undefined) => {
    task.reset();
    setValue((now) => withValue(now, path, next));
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setChecked(true);
    if (schema && Object.keys(problemsOf(schema, schema, value)).length > 0) return;
    task.submit(
      schema
        ? { ...payloadOf(schema, schema, value), ...(variant?.values as Payload | undefined) }
        : (value as Payload),
    );
  };
  return (
    <form onSubmit={submit} noValidate className="panel grid min-w-0 gap-5 p-4 sm:p-5">
      <div className="flex items-center justify-between gap-3">
        <h2>{actor.title}</h2>
        {actor.example && (
          <Button
            look="quiet"
            size="s"
            className="-my-1 -mr-2.5"
            onClick={() => setValue({ ...start, ...(actor.example as Payload) })}
            icon={<WandSparkles size={14} />}
          >
            {taskTexts.example}
          </Button>
        )}
      </div>
      <p className="-mt-4 text-s text-muted sm:hidden">{actor.description}</p>
      {from && <p className="-mt-4 text-s text-muted">{taskTexts.fromJob}</p>}
      {variant && actor.variants && actor.variants.length > 1 && (
        <Field label={taskTexts.variant}>
          <Select
            value={variant.title}
            choices={actor.variants.map((each) => ({ value: each.title, label: variantLabel(each.title) }))}
            onChange={onVariant}
          />
        </Field>
      )}
      {schema ? (
        <SchemaForm schema={schema} value={value} onChange={change} problems={problems} />
      ) : (
        <JsonField
          label={taskTexts.payload}
          hint={taskTexts.payloadHint}
          value={value}
          onChange={(next) => setValue(next ?? {})}
        />
      )}
      {task.error !== null && !(refused && Object.keys(problems).some((name) => name !== "")) && (
        <ProblemPanel error={task.error} />
      )}
      <dl className="grid gap-1 text-s">
        <div className="flex justify-between gap-4">
          <dt className="text-muted">{taskTexts.price}</dt>
          <dd className="num">
            {cost == null ? taskTexts.priceOpen : cost === 0 ? effectPageTexts.free : formatTokens(cost)}
          </dd>
        </div>
        <div className="flex justify-between gap-4">
          <dt className="text-muted">{effectPageTexts.balance[payer]}</dt>
          <dd className="num">{wallet.data ? formatTokens(wallet.data.balance) : "…"}</dd>
        </div>
      </dl>
      {missing > 0 && (
        <p role="alert" className="rounded-s bg-bad-soft px-3 py-2 text-s text-bad">
          <strong className="font-[600]">{effectPageTexts.missing(formatTokens(missing))}</strong>{" "}
          {effectPageTexts.missingText[payer]}
        </p>
      )}
      {actor.is_active && !actor.is_ready && (
        <p className="rounded-s bg-warn-soft px-3 py-2 text-s text-warn">{taskTexts.notReady}</p>
      )}
      {!actor.is_active && <p className="rounded-s bg-warn-soft px-3 py-2 text-s text-warn">{taskTexts.off}</p>}
      <Button
        type="submit"
        look="go"
        size="l"
        busy={task.isPending}
        disabled={!actor.is_active || missing > 0}
        icon={<Send size={17} aria-hidden />}
      >
        {task.isPending ? taskTexts.submitting : taskTexts.submit}
      </Button>
    </form>
  );
}

function sentences(problems: Record<string, Problem>): Record<string, string> {
  return Object.fromEntries(Object.entries(problems).map(([name, problem]) => [name, sentence(problem)]));
}

function sentence(problem: Problem): string {
  switch (problem.is) {
    case "required":
      return formTexts.required;
    case "tooLong":
      return formTexts.tooLong(problem.most);
    case "atLeast":
      return formTexts.atLeast(problem.least);
    case "atMost":
      return formTexts.atMost(problem.most);
    case "whole":
      return formTexts.whole;
  }
}

/** The server names fields as `payload.product.title`. */
function refusedFields(refused: ApiError | null): Record<string, string> {
  const named = refused?.problem.errors?.filter((each) => each.field.startsWith("payload.")) ?? [];
  return Object.fromEntries(
    named.map((each) => [each.field.slice("payload.".length), refused?.fieldReason(each.field) ?? each.reason]),
  );
}
