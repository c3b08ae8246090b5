import { Sparkles } from "lucide-react";
import type { ReactNode } from "react";
import type { ApiError } from "@/api/problems";
import type { Effect, Wallet } from "@/api/types";
import { Button, formatTokens } from "@/design";
import { waitLine } from "@/parts/effects";
import { priceText } from "@/parts/price";
import { payerOf } from "@/parts/wallet/payer";
import { effectPageTexts } from "@/texts/effect";
import type { LivePrice } from "./useQuote";

interface Props {
  effect: Effect;
  price: LivePrice;
  /** Number of jobs that the button submits. */
  jobs: number;
  /** The wallet that pays; undefined while it is unknown. */
  wallet: Wallet | undefined;
  refused: ApiError | null;
  isUploading: boolean;
  isSubmitting: boolean;
  /** The form has a problem that a press cannot show better. */
  isBlocked?: boolean;
}

/** Cost, expected time and the button that submits. */
export function Summary({ effect, price, jobs, wallet, refused, isUploading, isSubmitting, isBlocked = false }: Props) {
  const { cost } = price;
  const known =
    refused?.code === "insufficient_tokens" && typeof refused.problem.balance === "number"
      ? refused.problem.balance
      : (wallet?.balance ?? null);
  const missing = known === null ? 0 : Math.max(0, (cost ?? effect.credits_cost * jobs) - known);
  const payer = payerOf(wallet);
  const wait = waitLine(effect);
  return (
    <>
      <dl className="grid gap-1 text-s">
        <Row name={effectPageTexts.price}>
          <span aria-live="polite" className={price.isOld ? "opacity-50" : undefined}>
            {jobs === 1 ? priceLine(effect, price) : effectPageTexts.priceOfJobs(priceLine(effect, price), jobs)}
          </span>
        </Row>
        {effect.price_formula && (
          <Row name={effectPageTexts.formula}>
            <code className="text-xs break-words text-muted">{effect.price_formula}</code>
          </Row>
        )}
        <Row name={effectPageTexts.wait}>{wait.sentence ?? wait.text}</Row>
        <Row name={effectPageTexts.balance[payer]}>{known === null ? "…" : formatTokens(known)}</Row>
      </dl>
      {missing > 0 && (
        <p id="missing-tokens" role="alert" className="rounded-s bg-bad-soft px-3 py-2 text-s text-bad">
          <strong className="font-[600]">{effectPageTexts.missing(formatTokens(missing))}</strong>{" "}
          {effectPageTexts.missingText[payer]}
        </p>
      )}
      {!effect.is_available && (
        <p className="rounded-s bg-warn-soft px-3 py-2 text-s text-warn">{effectPageTexts.unavailable}</p>
      )}
      {/* The summary stays within reach of a long form. On phones it is above the bar of pages. */}
      <div className="sticky bottom-[calc(3.5rem+env(safe-area-inset-bottom))] z-10 -mx-4 -mb-4 rounded-b-m border-t bg-panel/95 px-4 py-3 backdrop-blur-md sm:-mx-5 sm:-mb-5 sm:px-5 sm:py-4 md:bottom-0">
        <Button
          type="submit"
          look="go"
          size="l"
          className="w-full"
          busy={isUploading || isSubmitting || price.isMeasuring}
          disabled={!effect.is_available || missing > 0 || isBlocked}
          aria-describedby={missing > 0 ? "missing-tokens" : undefined}
          icon={<Sparkles size={18} aria-hidden />}
        >
          {isUploading
            ? effectPageTexts.uploading
            : isSubmitting
              ? effectPageTexts.submitting
              : price.isMeasuring
                ? effectPageTexts.measuring
                : jobs === 1
                  ? effectPageTexts.generate
                  : effectPageTexts.generateBatch(jobs)}
          {!isUploading && !isSubmitting && !price.isMeasuring && cost !== null && cost > 0 && (
            <span className="num text-s font-normal">{formatTokens(cost)}</span>
          )}
        </Button>
      </div>
    </>
  );
}

function priceLine(effect: Effect, { cost, isMeasuring }: LivePrice): string {
  if (isMeasuring) return effectPageTexts.measuring;
  if (cost === null) return priceText(effect);
  return cost === 0 ? effectPageTexts.free : formatTokens(cost);
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="flex items-baseline justify-between gap-4">
      <dt className="text-muted">{name}</dt>
      <dd className="num text-right">{children}</dd>
    </div>
  );
}
