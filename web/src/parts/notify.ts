// Short messages at the edge of the window, after something was done. Their code comes with the first one.
import type { ExternalToast } from "sonner";
import { ApiError, explain } from "@/api/problems";
import { copyText } from "@/design/copy";
import { problemTexts } from "@/texts/problems";

let show: () => void = () => undefined;

/** What puts the place for messages into the page; set by the frame of the application. */
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

/** What was refused or failed, in one sentence. A failure of the server comes with the request id, to quote it. */
export async function notifyError(error: unknown, options?: ExternalToast): Promise<void> {
  const id = error instanceof ApiError && error.status >= 500 ? error.problem.request_id : null;
  const action = id ? { label: problemTexts.copyRequestId, onClick: () => void copyText(id) } : undefined;
  (await toast()).error(explain(error), { action, ...options });
}
