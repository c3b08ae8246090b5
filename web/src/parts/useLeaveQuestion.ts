import { useEffect } from "react";

/** The browser asks before it closes the tab while there are unsaved changes. */
export function useLeaveQuestion(isDirty: boolean): void {
  useEffect(() => {
    if (!isDirty) return;
    const confirmLeave = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", confirmLeave);
    return () => window.removeEventListener("beforeunload", confirmLeave);
  }, [isDirty]);
}
