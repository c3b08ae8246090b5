export const effectCodeTexts = {
  open: "Use it from code",
  title: "Use it from code",
  text: "The values of the form, as a program. It reads your API key from the variable `CALLSHEET_CLIENT__API_KEY`.",
  language: "Language",
  languages: { curl: "curl", python: "Python", typescript: "TypeScript" } as const,
  notes: {
    curl: "Submits the job. `GET /api/ai-jobs/{id}` returns its state and its files.",
    python: "Uploads the files, submits the job, waits, and saves the result.",
    typescript: "For Node. Uploads the files, submits the job, waits, and saves the result.",
  } as const,
  needsFile: "Replace `FILE_ID` by the id of an uploaded file, or choose a file in the form first.",
  copy: "Copy the program",
  copyWord: "Copy",
  close: "Close",
};
