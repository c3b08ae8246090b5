// Draft of the scaling rules of a fleet: texts until they are saved. Pure.
import type { Schemas } from "@/api/types";
import { duration } from "@/design/times";
import type { Json } from "@/parts/form/schema";
import { fleetTexts } from "@/texts/fleets";

type Rules = Schemas["FleetScaling"];
type Fleet = Pick<Schemas["Fleet"], "live_workers">;
const texts = fleetTexts.scaling;

export const MAIN_RULES = ["minimum", "maximum", "target_seconds", "idle_seconds"] as const;
export const MORE_RULES = [
  "warm_up_seconds",
  "scale_out_cooldown_seconds",
  "scale_in_cooldown_seconds",
  "on_demand_minimum",
  "spot_share",
] as const;
const NUMBERS = [...MAIN_RULES, ...MORE_RULES];
export type NumberRule = (typeof NUMBERS)[number];

// Defaults of the API. The form shows them before the first save.
const DEFAULTS: Record<NumberRule, number> = {
  minimum: 0,
  maximum: 1,
  target_seconds: 120,
  idle_seconds: 300,
  warm_up_seconds: 180,
  scale_out_cooldown_seconds: 30,
  scale_in_cooldown_seconds: 300,
  on_demand_minimum: 0,
  spot_share: 1,
};
const PROVIDER = "self_hosted";

export interface ScalingDraft {
  driver: string;
  options: Json;
  numbers: Record<NumberRule, string>;
  providers: string;
}

export function draftOf(rules: Rules | null, driver: string, options: Json): ScalingDraft {
  const numbers = Object.fromEntries(NUMBERS.map((name) => [name, String(rules?.[name] ?? DEFAULTS[name])])) as Record<
    NumberRule,
    string
  >;
  return {
    driver: rules?.driver ?? driver,
    options: rules ? (rules.options as Json) : options,
    numbers,
    providers: (rules?.providers ?? [PROVIDER]).join(", "),
  };
}

export function numberIn(text: string): number | null {
  const trimmed = text.trim();
  return /^\d+(\.\d+)?$/.test(trimmed) ? Number(trimmed) : null;
}

/** Fields whose text is not a number, by name. The API checks the rest. */
export function problemsIn(draft: ScalingDraft): Partial<Record<NumberRule, string>> {
  return Object.fromEntries(
    NUMBERS.filter((name) => numberIn(draft.numbers[name]) === null).map((name) => [name, texts.notANumber]),
  );
}

export function requestOf(draft: ScalingDraft, options: { [name: string]: Json }): Schemas["ScalingRequest"] {
  const numbers = Object.fromEntries(
    NUMBERS.map((name) => [name, numberIn(draft.numbers[name]) ?? DEFAULTS[name]]),
  ) as Record<NumberRule, number>;
  const providers = draft.providers
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
  return { driver: draft.driver, options, providers: providers.length > 0 ? providers : [PROVIDER], ...numbers };
}

/** Sentences about what the autoscaler will do with these rules. Empty while a number is missing. */
export function scalingPlan(draft: ScalingDraft, fleet: Fleet, saved: Rules | null): string[] {
  if (Object.keys(problemsIn(draft)).length > 0) return [];
  const [least, most, target, idle] = MAIN_RULES.map((name) => numberIn(draft.numbers[name]) ?? 0) as [
    number,
    number,
    number,
    number,
  ];
  if (least > most || most < 1) return [];
  const found: string[] = [];
  if (saved !== null && saved.driver !== draft.driver) found.push(texts.plan.driver(draft.driver));
  found.push(texts.plan.range(least, most));
  if (least < most) found.push(texts.plan.out(duration(target)), texts.plan.in(duration(idle)));
  if (least === 0) found.push(texts.plan.fromZero);
  const existing = saved?.existing ?? fleet.live_workers;
  if (existing > most) found.push(texts.plan.tooMany(existing - most));
  if (existing < least) found.push(texts.plan.tooFew(least - existing));
  return found;
}
