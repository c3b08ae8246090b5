import type { Schemas } from "@/api/types";
import { counted } from "./plurals";

type Status = Schemas["HealthFinding"]["status"];

export const healthTexts = {
  title: "Health",
  text: "The findings of the command callsheet doctor on this control plane.",
  again: "Check again",
  checked: "Checked",
  list: "Findings",
  statuses: { ok: "OK", warning: "Warning", problem: "Problem" } satisfies Record<Status, string>,
  whatToDo: "What to do",
  summary: (problems: number, warnings: number) => {
    if (problems + warnings === 0) return "Everything is in order.";
    const parts = [problems > 0 && counted(problems, "problem"), warnings > 0 && counted(warnings, "warning")].filter(
      Boolean,
    );
    return `${parts.join(" and ")} found.`;
  },
};

export const testAlertTexts = {
  title: "Messages about alerts",
  text: "Callsheet sends alerts to the webhook and the e-mail addresses of its settings. Send a test to see that they arrive.",
  send: "Send a test alert",
  webhook: "the webhook",
  sent: (recipients: string) =>
    `A test alert is sent to ${recipients} within seconds. If it is not accepted, an alert on the overview shows the error.`,
  noRecipient:
    "No recipient is configured. Set `alerts.webhook_url` or `alerts.emails`, and restart the control planes.",
};
