// These texts are separate from the other texts of runs, because every page loads the texts of the not-found route.
export const runNotFoundTexts = {
  title: "There is no such run",
  text: "The link may be wrong, or the run belongs to another user.",
  toRuns: "Go to runs",
};
