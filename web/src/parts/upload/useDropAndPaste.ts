import { useEffect, useRef, useState } from "react";

/**
 * Receives files that are dropped or pasted anywhere on the page: the first one, and all. Returns whether a file hovers
 * over it.
 */
export function useDropAndPaste(isOn: boolean, onFile: (file: File, all: File[]) => void): boolean {
  const [isOver, setOver] = useState(false);
  const latest = useRef(onFile);
  latest.current = onFile;
  useEffect(() => {
    if (!isOn) return;
    // The browser reports the entry of a child before the exit of its parent.
    let depth = 0;
    const hasFile = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const settle = () => {
      depth = 0;
      setOver(false);
    };
    const onEnter = (event: DragEvent) => {
      if (!hasFile(event)) return;
      depth += 1;
      setOver(true);
    };
    const onLeave = () => {
      depth -= 1;
      if (depth <= 0) settle();
    };
    // Without this the browser would open the file instead of the page.
    const onOver = (event: DragEvent) => hasFile(event) && event.preventDefault();
    const onDrop = (event: DragEvent) => {
      if (!hasFile(event)) return;
      event.preventDefault();
      settle();
      const all = [...(event.dataTransfer?.files ?? [])];
      // A field inside the page takes the files that are dropped on it.
      const isTaken = (event.target as HTMLElement).closest?.("[data-own-drop]") !== null;
      if (all[0] !== undefined && !isTaken) latest.current(all[0], all);
    };
    const onPaste = (event: ClipboardEvent) => {
      const all = [...(event.clipboardData?.files ?? [])];
      if (all[0] === undefined) return;
      event.preventDefault();
      latest.current(all[0], all);
    };
    window.addEventListener("dragenter", onEnter);
    window.addEventListener("dragleave", onLeave);
    window.addEventListener("dragover", onOver);
    window.addEventListener("drop", onDrop);
    window.addEventListener("paste", onPaste);
    return () => {
      window.removeEventListener("dragenter", onEnter);
      window.removeEventListener("dragleave", onLeave);
      window.removeEventListener("dragover", onOver);
      window.removeEventListener("drop", onDrop);
      window.removeEventListener("paste", onPaste);
    };
  }, [isOn]);
  return isOver;
}
