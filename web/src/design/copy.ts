/**
 * Copies a text to the clipboard. Browsers have `navigator.clipboard` on https and loopback only. An installation in an
 * office network may have neither.
 */
export async function copyText(text: string): Promise<void> {
  // The clipboard is missing at such an origin, although its type says otherwise.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard) return clipboard.writeText(text);
  const onCopy = (event: ClipboardEvent) => {
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
  };
  document.addEventListener("copy", onCopy, { once: true });
  try {
    if (!document.execCommand("copy")) throw new Error("The browser does not copy.");
  } finally {
    document.removeEventListener("copy", onCopy);
  }
}
