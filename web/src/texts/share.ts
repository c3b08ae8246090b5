import { counted } from "./plurals";

export const shareTexts = {
  title: "Share this result",
  text: "Anyone who has the link can see this result without an account. Your other jobs and files stay private.",
  ends: "The link expires",
  days: { "1": "After a day", "7": "After a week", "30": "After 30 days", "90": "After 90 days" },
  showInput: "Show the input",
  showInputHint: "The page compares before and after.",
  showPrompt: "Show the prompt",
  create: "Create link",
  created: "Your link is ready. It is shown only once. If you lose it, create another link.",
  link: "Public link",
  copy: "Copy link",
  open: "Open",
  another: "Create another",
  active: "Active links",
  opened: (count: number) =>
    count === 0 ? "Not opened yet" : count === 1 ? "Opened once" : `Opened ${counted(count, "time")}`,
  endsAt: "ends",
  shows: { input: "with input", prompt: "with prompt" },
  revoke: "Revoke",
  revokeLabel: (created: string) => `Revoke the link of ${created}`,
  revokeTitle: "Revoke this link?",
  revokeText: "The link stops working at once. This cannot be undone, but you can create another link.",
  keep: "Keep it",
  revoked: "The link is revoked and no longer works.",
  // The public page
  endedTitle: "This link does not work",
  endedText: "The link has expired, was revoked or is incomplete. Ask the person who shared it for a new link.",
  download: "Download",
  more: "More of this result",
};
