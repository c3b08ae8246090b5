export const problemTexts = {
  noConnection: "The server cannot be reached. Check your connection; your input is kept.",
  unavailable: "The server is not available at the moment. Try again in a few seconds.",
  unexpected: (status: number) => `The server returned an unexpected response (${status}).`,
  unexpectedError: "Something unexpected happened. Reload the page.",
  somethingFailed: "Something went wrong",
  tryAgain: "Try again",
  requestId: "Request id",
  copyRequestId: "Copy request id",
  pageFailed: "This page stopped working",
  pageFailedText: "An error stopped this page. Your jobs are not affected. Reload the page to continue.",
  reload: "Reload the page",
};
