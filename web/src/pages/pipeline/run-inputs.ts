// Inputs of a run, and their form for the API. Pure.
import { CreateRun } from "@/api/fields";
import type { Schemas } from "@/api/types";
import type { Strategy } from "@/parts/pipeline/chain";
import type { NewStep } from "./draft";

export interface RunInputs {
  prompt: string;
  /** Typed values by name. */
  variables: Record<string, string>;
  leaves: number;
  strategy: Strategy;
  /** Empty: a random seed. */
  seed: string;
  /** null: the expected cost of the run. */
  budget: number | null;
}

export const NO_INPUTS: RunInputs = {
  prompt: "",
  variables: {},
  leaves: 12,
  strategy: CreateRun.strategy.default,
  seed: "",
  budget: null,
};

/** "0.5" becomes a number and "true" a switch, as in the command line. Other values are texts. */
export function typedValue(text: string): string | number | boolean {
  if (text === "true" || text === "false") return text === "true";
  return /^-?(0|[1-9]\d{0,14})(\.\d{1,10})?$/.test(text) ? Number(text) : text;
}

/** Variables that a step uses and that have a value. */
function given(inputs: RunInputs, names: readonly string[]): Record<string, string | number | boolean> {
  return Object.fromEntries(
    names.flatMap((name) =>
      (inputs.variables[name] ?? "") === "" ? [] : [[name, typedValue(inputs.variables[name]!)]],
    ),
  );
}

function shared(inputs: RunInputs, names: readonly string[], needsPrompt: boolean) {
  const seed = inputs.seed.trim() === "" ? null : Number(inputs.seed);
  return {
    prompt: needsPrompt && inputs.prompt.trim() !== "" ? inputs.prompt : null,
    variables: given(inputs, names),
    strategy: inputs.strategy,
    target_leaves: inputs.leaves,
    seed,
  };
}

export function previewOf(
  steps: NewStep[],
  inputs: RunInputs,
  names: readonly string[],
  needsPrompt: boolean,
): Schemas["PreviewRun"] {
  return { steps, ...shared(inputs, names, needsPrompt) };
}

export function runOf(
  name: string,
  budget: number,
  inputs: RunInputs,
  names: readonly string[],
  needsPrompt: boolean,
): Omit<Schemas["CreateRun"], "idempotency_key"> {
  return { name, budget, ...shared(inputs, names, needsPrompt) };
}
