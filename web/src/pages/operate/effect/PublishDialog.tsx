import { type FormEvent, useState } from "react";
import { explain, fieldReason } from "@/api/problems";
import { Button, Dialog, Field, formatTokens } from "@/design";
import { NumberInput } from "@/parts/workflow/NumberInput";
import type { EffectRecord } from "@/parts/workflow/queries";
import { catalogEffectsTexts as texts } from "@/texts/catalog-effects";
import { useChangeEffect } from "./useEffectActions";

/** Publishing asks for the price, because an effect without one must not become free by accident. */
export function PublishDialog({ effect, onClose }: { effect: EffectRecord; onClose: () => void }) {
  const [price, setPrice] = useState<number | null>(effect.credits_cost > 0 ? effect.credits_cost : null);
  const publish = useChangeEffect(effect, (changed) => texts.publishedNow(changed.name), onClose);
  const reason = fieldReason(publish.error, "credits_cost");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (price !== null) publish.mutate({ is_published: true, credits_cost: price });
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={texts.publishTitle(effect.name)}
      text={texts.publishText}
      actions={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button look="go" type="submit" form="publish" busy={publish.isPending} disabled={price === null}>
            {texts.publishIt}
          </Button>
        </>
      }
    >
      <form id="publish" onSubmit={submit} noValidate>
        <Field
          label={texts.price}
          required
          hint={
            price === null ? texts.priceHint : price === 0 ? texts.publishFree : texts.publishPrice(formatTokens(price))
          }
          error={reason}
        >
          <NumberInput value={price} onChange={(value) => setPrice(value === null ? null : Number(value))} />
        </Field>
      </form>
      {publish.error !== null && reason === null && (
        <p role="alert" className="text-s text-bad">
          {explain(publish.error)}
        </p>
      )}
    </Dialog>
  );
}
