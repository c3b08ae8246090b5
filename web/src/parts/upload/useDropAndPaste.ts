import { useEffect, useRef, useState } from "react";

/** Receives files that are dropped or pasted anywhere on the page. Returns whether a file hovers over it. */
export function useDropAndPaste(isOn: boolean, onFile: (file: File) => void): boolean {
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
      const file = event.dataTransfer?.files[0];
      // A field inside the page takes the files that are dropped on it.
      const isTaken = (event.target as HTMLElement).closest?.("[data-own-drop]") !== null;
      if (file !== undefined && !isTaken) latest.current(file);
    };
    const onPaste = (event: ClipboardEvent) => {
      const file = event.clipboardData?.files[0];
      if (file === undefined) return;
      event.preventDefault();
      latest.current(file);
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
