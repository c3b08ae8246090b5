// Short messages at the edge of the window after an action. Their code loads with the first message.
import type { ExternalToast } from "sonner";
import { ApiError, explain } from "@/api/problems";
import { copyText } from "@/design/copy";
import { problemTexts } from "@/texts/problems";

let show: () => void = () => undefined;

/** Function that adds the area for messages to the page. The frame of the application sets it. */
export function onFirstMessage(callback: () => void): void {
  show = callback;
}

async function toast() {
  show();
  return (await import("sonner")).toast;
}

export async function notify(text: string, options?: ExternalToast): Promise<void> {
  (await toast())(text, options);
}

export async function notifyDone(text: string, options?: ExternalToast): Promise<void> {
  (await toast()).success(text, options);
}

/** Describes a refusal or a failure in one sentence. A server error includes the request id. */
export async function notifyError(error: unknown, options?: ExternalToast): Promise<void> {
  const id = error instanceof ApiError && error.status >= 500 ? error.problem.request_id : null;
  const action = id ? { label: problemTexts.copyRequestId, onClick: () => void copyText(id) } : undefined;
  (await toast()).error(explain(error), { action, ...options });
}
