// Draft of the scaling rules of a fleet: texts until they are saved. Pure.
import { ScalingRequest as rulesOfApi } from "@/api/fields";
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
export const NUMBERS = [...MAIN_RULES, ...MORE_RULES];
export type NumberRule = (typeof NUMBERS)[number];

export interface ScalingDraft extends Record<NumberRule, string> {
  driver: string;
  options: Json;
  providers: string;
}

function byRule<Value>(of: (name: NumberRule) => Value): Record<NumberRule, Value> {
  return Object.fromEntries(NUMBERS.map((name) => [name, of(name)])) as Record<NumberRule, Value>;
}

/** Without rules, the draft has the defaults of the API. */
export function draftOf(rules: Rules | null, driver: string, options: Json): ScalingDraft {
  return {
    driver: rules?.driver ?? driver,
    options: rules ? (rules.options as Json) : options,
    providers: (rules?.providers ?? rulesOfApi.providers.default).join(", "),
    ...byRule((name) => String(rules?.[name] ?? rulesOfApi[name].default)),
  };
}

export function numberIn(text: string): number | null {
  const trimmed = text.trim();
  return /^\d+(\.\d+)?$/.test(trimmed) ? Number(trimmed) : null;
}

/** Fields whose text is not a number, by name. The API checks the rest. */
export function problemsIn(draft: ScalingDraft): Partial<Record<NumberRule, string>> {
  return Object.fromEntries(
    NUMBERS.filter((name) => numberIn(draft[name]) === null).map((name) => [name, texts.notANumber]),
  );
}

export function requestOf(draft: ScalingDraft, options: { [name: string]: Json }): Schemas["ScalingRequest"] {
  const providers = draft.providers
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");
  return {
    driver: draft.driver,
    options,
    providers: providers.length > 0 ? providers : rulesOfApi.providers.default,
    ...byRule((name) => numberIn(draft[name]) ?? rulesOfApi[name].default),
  };
}

/** Sentences about what the autoscaler will do with these rules. Empty while a number is missing. */
export function scalingPlan(draft: ScalingDraft, fleet: Fleet, saved: Rules | null): string[] {
  if (Object.keys(problemsIn(draft)).length > 0) return [];
  const [least, most, target, idle] = MAIN_RULES.map((name) => numberIn(draft[name]) ?? 0) as [
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
