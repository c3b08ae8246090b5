// Mouse, pen and touch on a canvas: drag moves, wheel or two fingers zoom, a short touch selects.
interface Handlers {
  onPan: (dx: number, dy: number) => void;
  onZoom: (x: number, y: number, factor: number) => void;
  onTap: (x: number, y: number) => void;
}

interface Point {
  x: number;
  y: number;
}

// A finger always moves a little during a tap.
const TAP_PIXELS = 5;
const WHEEL_STEP = 0.0016;
const LINE_PIXELS = 16;

/** Returns a function that removes the listeners. */
export function followPointers(canvas: HTMLCanvasElement, handlers: Handlers): () => void {
  const held = new Map<number, Point>();
  let moved = 0;
  const at = (event: PointerEvent | WheelEvent): Point => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const onDown = (event: PointerEvent) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, at(event));
    if (held.size === 1) moved = 0;
  };
  const onMove = (event: PointerEvent) => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
    held.set(event.pointerId, now);
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (other) {
      const factor = distance(now, other) / Math.max(distance(before, other), 1);
      handlers.onZoom((now.x + other.x) / 2, (now.y + other.y) / 2, factor);
      handlers.onPan((now.x - before.x) / 2, (now.y - before.y) / 2);
    } else if (moved > TAP_PIXELS) {
      handlers.onPan(now.x - before.x, now.y - before.y);
    }
  };
  const onUp = (event: PointerEvent) => {
    const was = held.delete(event.pointerId);
    if (was && held.size === 0 && moved <= TAP_PIXELS && event.type === "pointerup") {
      const { x, y } = at(event);
      handlers.onTap(x, y);
    }
  };
  const onWheel = (event: WheelEvent) => {
    event.preventDefault();
    const { x, y } = at(event);
    const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * LINE_PIXELS : event.deltaY;
    // A pinch on a touchpad arrives as wheel events with the control key, in small steps.
    handlers.onZoom(x, y, Math.exp(-pixels * WHEEL_STEP * (event.ctrlKey ? 5 : 1)));
  };
  canvas.addEventListener("pointerdown", onDown);
  canvas.addEventListener("pointermove", onMove);
  canvas.addEventListener("pointerup", onUp);
  canvas.addEventListener("pointercancel", onUp);
  canvas.addEventListener("wheel", onWheel, { passive: false });
  return () => {
    canvas.removeEventListener("pointerdown", onDown);
    canvas.removeEventListener("pointermove", onMove);
    canvas.removeEventListener("pointerup", onUp);
    canvas.removeEventListener("pointercancel", onUp);
    canvas.removeEventListener("wheel", onWheel);
  };
}

function distance(one: Point, other: Point): number {
  return Math.hypot(one.x - other.x, one.y - other.y);
}
