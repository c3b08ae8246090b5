import { Field, formatTokens } from "@/design";
import { FormDialog } from "@/parts/form/FormDialog";
import { useForm } from "@/parts/form/useForm";
import { NumberInput } from "@/parts/workflow/NumberInput";
import type { EffectRecord } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { useChangeEffect } from "./useEffectActions";

/** Publishing asks for the price, because an effect without one must not become free by accident. */
export function PublishDialog({ effect, onClose }: { effect: EffectRecord; onClose: () => void }) {
  const isCalculated = Boolean(effect.price_formula);
  const form = useForm({
    saved: { credits_cost: effect.credits_cost > 0 ? effect.credits_cost : null },
    save: useChangeEffect(effect, (changed) => texts.publishedNow(changed.name), onClose),
    body: ({ credits_cost }) => ({
      is_published: true,
      credits_cost: isCalculated ? undefined : (credits_cost ?? undefined),
    }),
  });
  const price = form.values.credits_cost;
  return (
    <FormDialog
      form={form}
      title={texts.publishTitle(effect.name)}
      text={
        isCalculated ? `${texts.publishText} ${texts.publishByFormula(effect.price_formula ?? "")}` : texts.publishText
      }
      action={texts.publishIt}
      cancel={texts.cancel}
      disabled={price === null && !isCalculated}
      onClose={onClose}
    >
      {!isCalculated && (
        <Field
          label={texts.price}
          required
          hint={
            price === null ? texts.priceHint : price === 0 ? texts.publishFree : texts.publishPrice(formatTokens(price))
          }
          error={form.reasonOf("credits_cost")}
        >
          <NumberInput
            value={price}
            onChange={(value) => form.set({ credits_cost: value === null ? null : Number(value) })}
          />
        </Field>
      )}
    </FormDialog>
  );
}
