// Apart from the other texts of runs: every page loads what a route shows if there is nothing.
export const runNotFoundTexts = {
  title: "There is no such run",
  text: "The link may be wrong, or the run belongs to another user.",
  toRuns: "Go to runs",
};
