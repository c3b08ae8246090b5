import { counted } from "./plurals";

export const formTexts = {
  required: "Fill this in.",
  tooLong: (most: number) => `Use at most ${counted(most, "character")}.`,
  atLeast: (least: number) => `The smallest value is ${least}.`,
  atMost: (most: number) => `The largest value is ${most}.`,
  whole: "Use a whole number.",
  counter: (used: number, most: number) => `${used} / ${most}`,
  random: "Pick a random number",
  drawn: "Random",
  reset: "Reset to defaults",
  range: (min: number, max: number) => `${min} to ${max}`,
  notJson: 'Write a JSON object, for example {"steps": 20}.',
  oneBelow: "One per line.",
  more: "More options",
  fromVariable: (label: string) => `Take ${label} from a variable`,
  ownValue: (label: string) => `Give ${label} a value of its own`,
};
