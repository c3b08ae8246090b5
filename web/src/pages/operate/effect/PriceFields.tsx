import { useQuery } from "@tanstack/react-query";
import { Field, Textarea } from "@/design";
import { NumberInput } from "@/parts/workflow/NumberInput";
import { workflowQuery } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import type { EffectEditing } from "./useEffectDraft";

const MEASURES: Record<string, readonly string[]> = {
  image: ["megapixels"],
  video: ["seconds", "megapixels"],
  audio: ["seconds"],
  text: ["length"],
};

/** The price of every job. With a formula, it shows the lowest one. */
export function PriceField({ editing: { values, set, reasonOf } }: { editing: EffectEditing }) {
  const isCalculated = Boolean(values.price_formula?.trim());
  return (
    <Field
      label={isCalculated ? texts.lowestPrice : texts.price}
      hint={isCalculated ? texts.lowestPriceHint : texts.priceHint}
      error={reasonOf("credits_cost")}
    >
      <NumberInput
        value={values.credits_cost}
        disabled={isCalculated}
        onChange={(value) => set({ credits_cost: Number(value ?? 0) })}
      />
    </Field>
  );
}

export function FormulaField({ editing: { values, set, reasonOf } }: { editing: EffectEditing }) {
  const workflow = useQuery(workflowQuery(values.workflow));
  const names = (workflow.data?.properties ?? []).flatMap(({ key, type }) =>
    type in MEASURES ? MEASURES[type]!.map((measure) => `${key}.${measure}`) : [key],
  );
  return (
    <div className="grid min-w-0 gap-2 sm:col-span-2">
      <Field label={texts.formula} hint={texts.formulaHint} error={reasonOf("price_formula")}>
        <Textarea
          rows={2}
          value={values.price_formula ?? ""}
          maxLength={1000}
          spellCheck={false}
          className="font-mono text-s"
          onChange={(event) => set({ price_formula: event.target.value })}
        />
      </Field>
      <details className="text-s text-muted">
        <summary className="w-fit cursor-pointer hover:text-text">{texts.formulaHelp}</summary>
        <dl className="mt-2 grid gap-2">
          {texts.formulaExamples.map(([formula, meaning]) => (
            <div key={formula} className="grid gap-x-4 sm:grid-cols-2">
              <dt>
                <code className="break-words text-xs text-text">{formula}</code>
              </dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
        <p className="mt-2">{texts.formulaFunctions}</p>
        {names.length > 0 && <p className="mt-2 break-words">{texts.formulaKeys(names.join(", "))}</p>}
      </details>
    </div>
  );
}
