// Short messages at the edge of the window, after something was done. Their code comes with the first one.
import type { ExternalToast } from "sonner";
import { explain } from "@/api/problems";

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

/** What was refused or failed, in one sentence. */
export async function notifyError(error: unknown, options?: ExternalToast): Promise<void> {
  (await toast()).error(explain(error), options);
}
