// Keyboard shortcuts of the whole application. They are off while a user types.
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { usePlaces } from "./usePlaces";

const SEQUENCE_MS = 1_000;

interface Handlers {
  onPalette: () => void;
  onKeys: () => void;
}

export function useShortcuts(handlers: Handlers): void {
  const navigate = useNavigate();
  const places = usePlaces();
  const knownPlaces = useRef(places);
  knownPlaces.current = places;
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    let pressedAt = 0;
    const onKeyDown = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        latest.current.onPalette();
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
      if (event.key === "?") {
        event.preventDefault();
        latest.current.onKeys();
      } else if (event.key === "g") {
        pressedAt = event.timeStamp;
      } else if (event.timeStamp - pressedAt < SEQUENCE_MS && pressedAt > 0) {
        pressedAt = 0;
        const place = knownPlaces.current.find((each) => each.key === event.key);
        if (place !== undefined) void navigate({ to: place.to });
      }
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [navigate]);
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      target.closest("input, textarea, select, [role=dialog], [role=menu], [role=listbox]") !== null)
  );
}
