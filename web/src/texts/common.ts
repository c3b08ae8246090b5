/** Words of the design system, which are on every page. */
export const commonTexts = {
  required: "required",
  chosen: "chosen",
  justNow: "just now",
  clearSearch: "Clear the search",
  more: "Show more",
  cancel: "Cancel",
  save: "Save",
  done: "Done",
  copy: "Copy",
  never: "Never",
  none: "–",
  tokens: (amount: string, count: number) => `${amount} ${count === 1 ? "token" : "tokens"}`,
};
